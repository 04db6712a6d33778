package happening

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Status says what is to become of an instance or an occurrence. The values are those of the interface and are stored.
type Status string

// Completed is never stored: it is computed when a happening is read, from an end that has passed.
const (
	Scheduled   Status = "scheduled"
	Cancelled   Status = "cancelled"
	Postponed   Status = "postponed"
	Rescheduled Status = "rescheduled"
	Completed   Status = "completed"
)

// Pattern is the temporal pattern of a happening. The values are stored.
type Pattern string

// The temporal patterns: Singular happens once, be it over several days; Recurring comes back as separate instances;
// Ongoing is open over weeks or months, as an exhibition is.
const (
	Singular  Pattern = "singular"
	Recurring Pattern = "recurring"
	Ongoing   Pattern = "ongoing"
)

// RelationType says how a happening relates to a place. The values are stored.
type RelationType string

// The relation types: a specific point, or a broader area.
const (
	AtLocation       RelationType = "LOCATION"
	RelevanceRegion  RelationType = "RELEVANCE_REGION"
	maxGeoScore                   = 100
	timeEvidenceForm              = "2006-01-02T15:04:05"
)

// Details is everything that is known of one happening, as one source shows it. It is stored inside events, so its JSON
// names are fixed.
//
// Details is a value: it is never changed once made, and copies may share their slices. Times are instants;
// Time.Timezone says how to show them.
type Details struct {
	// Title is plain text that is safe to insert into HTML as it stands.
	Title string `json:"title"`
	// Description is sanitised HTML.
	Description string `json:"description,omitempty"`
	// ShortDescription is plain text like Title.
	ShortDescription string `json:"shortDescription,omitempty"`

	Time      Time       `json:"time"`
	Location  *Location  `json:"location,omitempty"`
	Capacity  *Capacity  `json:"capacity,omitempty"`
	Organizer *Organizer `json:"organizer,omitempty"`

	PrimaryImage     string   `json:"primaryImage,omitempty"`
	SupportingImages []string `json:"supportingImages,omitempty"`
	PrimaryURL       string   `json:"primaryUrl,omitempty"`
	// URLs holds every link of the happening, PrimaryURL included.
	URLs []string `json:"urls,omitempty"`

	GeoLocations []GeoLocation `json:"geoLocations,omitempty"`
	// Instances are ordered by the start of their first occurrence.
	Instances []Instance `json:"instances,omitempty"`
}

// Time describes when a happening takes place, in words.
type Time struct {
	TemporalPattern Pattern `json:"temporalPattern,omitempty"`
	// Timezone is an IANA identifier.
	Timezone    string `json:"timezone,omitempty"`
	DisplayText string `json:"displayText,omitempty"`
}

// Location says where: a venue, an online part, or both.
type Location struct {
	Venue          *Venue       `json:"venue,omitempty"`
	Coordinates    *Coordinates `json:"coordinates,omitempty"`
	Online         *Online      `json:"online,omitempty"`
	DisplayAddress string       `json:"displayAddress,omitempty"`
}

// Venue is a named place.
type Venue struct {
	Name    string `json:"name"`
	Address string `json:"address,omitempty"`
}

// Coordinates are WGS 84 degrees.
type Coordinates struct {
	Lat float64 `json:"lat"`
	Lng float64 `json:"lng"`
}

// Online is where to take part from afar.
type Online struct {
	Platform string `json:"platform"`
	URL      string `json:"url"`
}

// Capacity counts places. Unlimited is only ever set by a source that says so.
type Capacity struct {
	Total     *int `json:"total,omitempty"`
	Available *int `json:"available,omitempty"`
	Unlimited bool `json:"unlimited"`
}

// Organizer is who holds the happening. Contact is an e-mail address or a telephone number.
type Organizer struct {
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"`
	Contact string `json:"contact,omitempty"`
}

// GeoLocation is a place that the happening relates to, with a score from 0 to 100 of how sure that is.
type GeoLocation struct {
	ID           uuid.UUID    `json:"id"`
	Description  string       `json:"description"`
	RelationType RelationType `json:"relationType"`
	Score        int          `json:"score"`
}

// Instance is one holding of a happening. A happening held once has one; a recurring one has an instance for each
// repetition.
type Instance struct {
	ID          uuid.UUID    `json:"id"`
	Status      Status       `json:"status"`
	Occurrences []Occurrence `json:"occurrences"`
}

// Occurrence is a dated start: each day of an instance that takes several days is an occurrence of its own.
type Occurrence struct {
	ID    uuid.UUID `json:"id"`
	Start time.Time `json:"start"`
	// End is nil where the source names none.
	End *time.Time `json:"end,omitempty"`
	// AllDay says that the source names the day and no time; Start and End are then the midnights around it in the
	// happening's timezone.
	AllDay bool   `json:"allDay,omitempty"`
	Status Status `json:"status"`
}

// detailsNamespace is the UUIDv5 namespace of everything derived here. It must never change: stored ids hang on it.
var detailsNamespace = uuid.MustParse("6f1c2c1e-9a53-5d1b-8f0e-3c1d5a7e42b9")

// DeriveID is the id of the happening that the evidence (a collector's key) identifies. The same evidence gives the
// same id, whichever source has it.
func DeriveID(evidence string) uuid.UUID {
	return derived("happening", evidence)
}

// DeriveInstanceID is the id of an instance, from the key of its happening and what tells it from its siblings: an
// identifier of its own, else its original start (see [OriginalStart]).
func DeriveInstanceID(happeningKey, evidence string) uuid.UUID {
	return derived("instance", happeningKey, evidence)
}

// DeriveOccurrenceID is the id of an occurrence; day counts from the first day of its instance, which is 0.
func DeriveOccurrenceID(instance uuid.UUID, day int) uuid.UUID {
	date := "0001-01-01" // nearly all have no other day
	if day != 0 {
		date = time.Date(1, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	return derived("occurrence", instance.String(), date)
}

// DeriveGeoLocationID is the id of a geo location, from what describes it.
func DeriveGeoLocationID(evidence ...string) uuid.UUID {
	return derived(append([]string{"geo"}, evidence...)...)
}

// OriginalStart is the evidence of an instance that has no identifier: the local wall time at which it was first
// announced to start.
func OriginalStart(wall time.Time) string { return wall.Format(timeEvidenceForm) }

// derived is the UUIDv5 of the parts. They are joined with a separator that no part holds in practice, so that ("a",
// "bc") and ("ab", "c") differ.
func derived(parts ...string) uuid.UUID {
	name := make([]byte, 0, 256)
	for i, part := range parts {
		if i > 0 {
			name = append(name, '\x1f')
		}
		name = append(name, part...)
	}
	return uuid.NewSHA1(detailsNamespace, name)
}

// NewGeoLocation makes a geo location and its derived id. The score is held within 0 and 100.
func NewGeoLocation(description string, relation RelationType, score int, evidence ...string) GeoLocation {
	return GeoLocation{
		ID:           DeriveGeoLocationID(append([]string{description, string(relation)}, evidence...)...),
		Description:  description,
		RelationType: relation,
		Score:        min(max(score, 0), maxGeoScore),
	}
}

// Equal says that both tell the same: an observation that is Equal to what is known changes nothing. Times are compared
// as instants, and an empty slice is as good as none.
func (d Details) Equal(o Details) bool {
	return d.Title == o.Title &&
		d.Description == o.Description &&
		d.ShortDescription == o.ShortDescription &&
		d.Time == o.Time &&
		equalPtr(d.Location, o.Location, Location.Equal) &&
		equalPtr(d.Capacity, o.Capacity, Capacity.Equal) &&
		equalPtr(d.Organizer, o.Organizer, same) &&
		d.PrimaryImage == o.PrimaryImage &&
		slices.Equal(d.SupportingImages, o.SupportingImages) &&
		d.PrimaryURL == o.PrimaryURL &&
		slices.Equal(d.URLs, o.URLs) &&
		slices.Equal(d.GeoLocations, o.GeoLocations) &&
		slices.EqualFunc(d.Instances, o.Instances, Instance.Equal)
}

// Equal compares what the pointers point to.
func (l Location) Equal(o Location) bool {
	return equalPtr(l.Venue, o.Venue, same) &&
		equalPtr(l.Coordinates, o.Coordinates, same) &&
		equalPtr(l.Online, o.Online, same) &&
		l.DisplayAddress == o.DisplayAddress
}

// Equal compares what the pointers point to.
func (c Capacity) Equal(o Capacity) bool {
	return equalPtr(c.Total, o.Total, same) &&
		equalPtr(c.Available, o.Available, same) &&
		c.Unlimited == o.Unlimited
}

// Equal compares the ids, the statuses and the occurrences, in order.
func (i Instance) Equal(o Instance) bool {
	return i.ID == o.ID && i.Status == o.Status &&
		slices.EqualFunc(i.Occurrences, o.Occurrences, Occurrence.Equal)
}

// Equal compares times as instants.
func (c Occurrence) Equal(o Occurrence) bool {
	return c.ID == o.ID && c.Status == o.Status && c.AllDay == o.AllDay &&
		c.Start.Equal(o.Start) && equalPtr(c.End, o.End, time.Time.Equal)
}

func same[T comparable](a, b T) bool { return a == b }

func equalPtr[T any](a, b *T, eq func(T, T) bool) bool {
	if a == nil || b == nil {
		return a == b
	}
	return eq(*a, *b)
}

// KeepIDs gives back d with the ids of the previous observation where they are others for no reason of the happening's.
// An instance that starts as one that is gone is that one: the source knows the happening by other evidence now. And
// where a start was changed without the source saying from when, exactly one instance of prev is gone that was still to
// come at now, and exactly one of d is new: the new one is the old one moved. Readers then see a known occurrence
// change instead of one vanish and another appear. A past instance that is gone was merely dropped from the page; what
// is new beside it is another one.
func (d Details) KeepIDs(prev Details, now time.Time) Details {
	gone := without(prev.Instances, d.Instances)
	came := without(d.Instances, prev.Instances)
	if len(gone) == 0 || len(came) == 0 {
		return d
	}
	d.Instances = slices.Clone(d.Instances)
	byStart := make(map[time.Time]int, len(gone))
	for _, i := range gone {
		byStart[prev.Instances[i].start().UTC()] = i
	}
	matched := 0
	came = slices.DeleteFunc(came, func(i int) bool {
		start := d.Instances[i].start().UTC()
		old, same := byStart[start]
		if same {
			delete(byStart, start)
			matched++
			d.Instances[i] = d.Instances[i].as(prev.Instances[old].ID)
		}
		return same
	})
	if len(gone)-matched != 1 || len(came) != 1 {
		return d
	}
	for _, i := range byStart {
		if old := prev.Instances[i]; !old.begunBy(now) {
			d.Instances[came[0]] = d.Instances[came[0]].as(old.ID)
		}
	}
	return d
}

// keepMoves returns d, which a source shows as its version, with the instances rescheduled that start at another time
// than in prev, an earlier version. They stay so as long as they start then. The instances of both have the same ids,
// see [Details.KeepIDs].
func (d Details) keepMoves(prev Details, version, earlier int) Details {
	if version == 0 || version < earlier {
		return d
	}
	was := make(map[uuid.UUID]Instance, len(prev.Instances))
	for _, old := range prev.Instances {
		was[old.ID] = old
	}
	d.Instances = slices.Clone(d.Instances)
	for n, i := range d.Instances {
		old := was[i.ID]
		if i.Status != Scheduled || len(i.Occurrences) == 0 || len(old.Occurrences) == 0 {
			continue
		}
		moved := i.Occurrences[0].movedFrom(old.Occurrences[0])
		if moved && version > earlier || !moved && earlier > 0 && old.Status == Rescheduled {
			d.Instances[n] = i.rescheduled()
		}
	}
	return d
}

// rescheduled is the instance with all that is scheduled of it rescheduled.
func (i Instance) rescheduled() Instance {
	i.Status, i.Occurrences = Rescheduled, slices.Clone(i.Occurrences)
	for n := range i.Occurrences {
		if i.Occurrences[n].Status == Scheduled {
			i.Occurrences[n].Status = Rescheduled
		}
	}
	return i
}

// movedFrom reports whether the occurrence starts at another time than before. That a time is known where there was a
// mere day moves nothing.
func (c Occurrence) movedFrom(old Occurrence) bool {
	return !c.Start.Equal(old.Start) && c.AllDay == old.AllDay || c.AllDay != old.AllDay && !oneDate(c, old)
}

// as is the instance under another id.
func (i Instance) as(id uuid.UUID) Instance {
	i.ID, i.Occurrences = id, slices.Clone(i.Occurrences)
	for n := range i.Occurrences {
		i.Occurrences[n].ID = DeriveOccurrenceID(id, n)
	}
	return i
}

// begunBy says that the first occurrence has started at t.
func (i Instance) begunBy(t time.Time) bool {
	return len(i.Occurrences) > 0 && !i.Occurrences[0].Start.After(t)
}

// without gives the indexes of the instances of a that b has not.
func without(a, b []Instance) []int {
	var missing []int
	for i := range a {
		if !slices.ContainsFunc(b, func(o Instance) bool { return o.ID == a[i].ID }) {
			missing = append(missing, i)
		}
	}
	return missing
}
