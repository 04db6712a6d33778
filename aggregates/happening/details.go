package happening

import (
	"crypto/sha1" //nolint:gosec // see derived
	"slices"
	"time"

	"github.com/google/uuid"
)

// Status is the state of an instance or an occurrence. The values are those of the interface and are stored.
type Status string

// Completed is never stored: readers derive it from an end that has passed.
const (
	Scheduled   Status = "scheduled"
	Cancelled   Status = "cancelled"
	Postponed   Status = "postponed"
	Rescheduled Status = "rescheduled"
	Completed   Status = "completed"
)

// Pattern is the temporal pattern of a happening. The values are stored.
type Pattern string

// Temporal patterns: Singular takes place once, maybe over several days; Recurring has separate instances; Ongoing is
// open over weeks or months, as an exhibition is.
const (
	Singular  Pattern = "singular"
	Recurring Pattern = "recurring"
	Ongoing   Pattern = "ongoing"
)

// RelationType is the relation of a happening to a place. The values are stored.
type RelationType string

// Relation types: a specific point, or a broader area.
const (
	AtLocation       RelationType = "LOCATION"
	RelevanceRegion  RelationType = "RELEVANCE_REGION"
	maxGeoScore                   = 100
	timeEvidenceForm              = "2006-01-02T15:04:05"
)

// Details are all properties of one happening as one source shows it. They are stored inside events, so the JSON names
// are fixed.
//
// Details are immutable, and copies may share slices. Times are instants, to be shown in Time.Timezone.
type Details struct {
	// Title is plain text that is safe to insert into HTML.
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

// Time describes in words when a happening takes place.
type Time struct {
	TemporalPattern Pattern `json:"temporalPattern,omitempty"`
	// Timezone is an IANA identifier.
	Timezone    string `json:"timezone,omitempty"`
	DisplayText string `json:"displayText,omitempty"`
}

// Location is a venue, an online part, or both.
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

// Online is the place of remote participation.
type Online struct {
	Platform string `json:"platform"`
	URL      string `json:"url"`
}

// Capacity counts places. Unlimited is set only if the source states it.
type Capacity struct {
	Total     *int `json:"total,omitempty"`
	Available *int `json:"available,omitempty"`
	Unlimited bool `json:"unlimited"`
}

// Organizer is the organizer of a happening. Contact is an e-mail address or a telephone number.
type Organizer struct {
	Name    string `json:"name"`
	URL     string `json:"url,omitempty"`
	Contact string `json:"contact,omitempty"`
}

// GeoLocation is a related place. Score is the certainty, from 0 to 100.
type GeoLocation struct {
	ID           uuid.UUID    `json:"id"`
	Description  string       `json:"description"`
	RelationType RelationType `json:"relationType"`
	Score        int          `json:"score"`
}

// Instance is one performance of a happening. A recurring happening has an instance for each repetition.
type Instance struct {
	ID          uuid.UUID    `json:"id"`
	Status      Status       `json:"status"`
	Occurrences []Occurrence `json:"occurrences"`
}

// Occurrence is a dated start: an instance of several days has an occurrence for each day.
type Occurrence struct {
	ID    uuid.UUID `json:"id"`
	Start time.Time `json:"start"`
	// End is nil if the source names none.
	End *time.Time `json:"end,omitempty"`
	// AllDay marks a day without a time. Start and End are the midnights around it in the happening's timezone.
	AllDay bool   `json:"allDay,omitempty"`
	Status Status `json:"status"`
}

// detailsNamespace is the UUIDv5 namespace of derived ids. It must never change, because ids are stored.
var detailsNamespace = uuid.MustParse("6f1c2c1e-9a53-5d1b-8f0e-3c1d5a7e42b9")

// DeriveID derives the id of a happening from evidence (a collector's key). Equal evidence has equal ids in all
// sources.
func DeriveID(evidence string) uuid.UUID {
	return derived("happening", evidence)
}

// DeriveInstanceID derives the id of an instance from the key of its happening and from evidence: an identifier of the
// instance, else its original start (see [OriginalStart]).
func DeriveInstanceID(happeningKey, evidence string) uuid.UUID {
	return derived("instance", happeningKey, evidence)
}

// DeriveOccurrenceID derives the id of an occurrence. The first day of its instance is 0.
func DeriveOccurrenceID(instance uuid.UUID, day int) uuid.UUID {
	date := "0001-01-01" // nearly all have day 0
	if day != 0 {
		date = time.Date(1, 1, 1+day, 0, 0, 0, 0, time.UTC).Format(time.DateOnly)
	}
	return derived("occurrence", instance.String(), date)
}

// DeriveGeoLocationID derives the id of a geo location from its description.
func DeriveGeoLocationID(evidence ...string) uuid.UUID {
	return derived(append([]string{"geo"}, evidence...)...)
}

// OriginalStart returns the evidence of an instance without an identifier: the local wall time at which it was first
// announced to start.
func OriginalStart(wall time.Time) string { return wall.Format(timeEvidenceForm) }

// derived returns the UUIDv5 of the parts, joined with a separator, so that ("a", "bc") and ("ab", "c") differ. It is
// [uuid.NewSHA1] without its allocations: a calendar page may have 600,000 occurrences.
func derived(parts ...string) uuid.UUID {
	name := append(make([]byte, 0, 256), detailsNamespace[:]...)
	for i, part := range parts {
		if i > 0 {
			name = append(name, '\x1f')
		}
		name = append(name, part...)
	}
	hash := sha1.Sum(name) //nolint:gosec // RFC 9562 uses SHA-1 here
	id := uuid.UUID(hash[:16])
	id[6] = id[6]&0x0f | 5<<4 // version
	id[8] = id[8]&0x3f | 0x80 // variant
	return id
}

// NewGeoLocation returns a geo location with its derived id. The score is clamped to 0 to 100.
func NewGeoLocation(description string, relation RelationType, score int, evidence ...string) GeoLocation {
	return GeoLocation{
		ID:           DeriveGeoLocationID(append([]string{description, string(relation)}, evidence...)...),
		Description:  description,
		RelationType: relation,
		Score:        min(max(score, 0), maxGeoScore),
	}
}

// Equal reports whether both describe the same, so that observing o changes nothing. Times are compared as instants;
// nil and empty slices are equal.
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

// Equal compares the values behind the pointers.
func (l Location) Equal(o Location) bool {
	return equalPtr(l.Venue, o.Venue, same) &&
		equalPtr(l.Coordinates, o.Coordinates, same) &&
		equalPtr(l.Online, o.Online, same) &&
		l.DisplayAddress == o.DisplayAddress
}

// Equal compares the values behind the pointers.
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

// KeepIDs returns d with ids of prev for instances whose evidence alone has changed. An instance with the start of a
// missing one is that one. If exactly one instance of prev is missing that was to come at now, and exactly one of d is
// new, the new one is the old one moved. Readers then see a known occurrence change instead of one vanish and another
// appear. A missing instance of the past was dropped from the page; a new one beside it is another.
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

// keepMoves returns d, which a source shows as its version, with instances rescheduled whose start differs from prev,
// an earlier version. They stay rescheduled as long as they have that start. The instances of both have the same ids,
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

// rescheduled returns the instance with everything scheduled in it rescheduled.
func (i Instance) rescheduled() Instance {
	i.Status, i.Occurrences = Rescheduled, slices.Clone(i.Occurrences)
	for n := range i.Occurrences {
		if i.Occurrences[n].Status == Scheduled {
			i.Occurrences[n].Status = Rescheduled
		}
	}
	return i
}

// movedFrom reports whether the occurrence has another start than before. A time instead of a mere day is not a move.
func (c Occurrence) movedFrom(old Occurrence) bool {
	return !c.Start.Equal(old.Start) && c.AllDay == old.AllDay || c.AllDay != old.AllDay && !oneDate(c, old)
}

// as returns the instance with another id.
func (i Instance) as(id uuid.UUID) Instance {
	i.ID, i.Occurrences = id, slices.Clone(i.Occurrences)
	for n := range i.Occurrences {
		i.Occurrences[n].ID = DeriveOccurrenceID(id, n)
	}
	return i
}

// begunBy reports whether the first occurrence has started at t.
func (i Instance) begunBy(t time.Time) bool {
	return len(i.Occurrences) > 0 && !i.Occurrences[0].Start.After(t)
}

// without returns the indexes of the instances of a that b lacks.
func without(a, b []Instance) []int {
	var missing []int
	for i := range a {
		if !slices.ContainsFunc(b, func(o Instance) bool { return o.ID == a[i].ID }) {
			missing = append(missing, i)
		}
	}
	return missing
}
