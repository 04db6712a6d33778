// Package match decides whether two happenings from sources with different keys are the same.
//
// Happenings that may be the same share a mark, which is a key, or a local date and a place or a title; those are
// compared. They are the same if they start together at one place with equivalent titles. Signs against it weigh more:
// a missed match shows a happening twice, a wrong one loses a happening.
//
//	visiting: a sighting of a page, and what its source knows ─┐
//	                                                           ├─▶ Subject ──Marks──▶ pairs that share one
//	curate: a happening, and what all sources know ────────────┘                                │
//	                                                                                            ▼
//	one happening, or two and why ◀── Verdict ◀── Compare(Subject, Subject, Bond) ◀── Bond: what they share besides
//
// Both callers use the same marks and the same decision. Two entries of one page are two, and visiting alone compares
// what one source shows; so the curation never does. They differ in what follows: a sighting gets the id of a known
// happening before anything is recorded, and happenings of several sources are merged by events.
//
// The package is independent of storage, and its results depend on the two happenings only.
package match

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
)

// Subject is a happening prepared for comparison.
type Subject struct {
	plain     string // title as identity.Title returns it
	title     words
	place     place
	starts    []start
	image     string
	organizer string
	keys      []string
}

// start is the start of an instance.
type start struct {
	at     time.Time
	end    time.Time // zero if it is unknown
	allDay bool
	day    string // local
}

const (
	// maxStarts limits the instances that are compared. Of a longer series the first ones count.
	maxStarts = 60
	// Together is the maximum difference of two starts of one instance.
	Together = 30 * time.Minute
	// nearPlace is the maximum distance, in metres, of two positions of one place; samePlaces of places with the same
	// name.
	nearPlace  = 200
	samePlaces = 5000
)

// Of returns the subject of details. keys are the strong evidence of its identity. Instances that are over are left
// out, unless there are no others.
func Of(d happening.Details, keys []string, now time.Time) Subject {
	s := Subject{plain: identity.Title(d.Title), keys: keys, image: d.PrimaryImage}
	if d.Organizer != nil {
		s.organizer = joined(d.Organizer.Name)
	}
	zone := zoneOf(d)
	s.starts = startsOf(d, zone, now, maxStarts)
	s.place = placeOf(d)
	s.title = titleOf(d.Title, s.starts, zone)
	return s
}

func zoneOf(d happening.Details) *time.Location {
	return cmp.Or(timing.LoadZone(d.Time.Timezone), time.UTC)
}

func startsOf(d happening.Details, zone *time.Location, now time.Time, most int) []start {
	var all, over []start
	for _, instance := range d.Instances {
		if len(instance.Occurrences) == 0 {
			continue
		}
		first, last := instance.Occurrences[0], instance.Occurrences[len(instance.Occurrences)-1]
		s := start{at: first.Start, allDay: first.AllDay, day: first.Start.In(zone).Format(time.DateOnly)}
		if last.End != nil {
			s.end = *last.End
		}
		if end := last.End; end != nil && !end.After(now) || end == nil && last.Start.Before(now.Add(-24*time.Hour)) {
			over = append(over, s)
		} else if all = append(all, s); len(all) == most {
			break
		}
	}
	if len(all) == 0 {
		all = over[max(0, len(over)-1):]
	}
	return all
}

// Dates are the starts of the instances of a happening as one source shows it, without their ends.
type Dates []start

// maxDates limits the instances of a series among which single dates are looked up.
const maxDates = 400

// DatesOf returns the dates of a happening. Instances that are over are left out, unless there are no others.
func DatesOf(d happening.Details, now time.Time) Dates {
	all := startsOf(d, zoneOf(d), now, maxDates)
	for i := range all {
		all[i].end = time.Time{}
	}
	return all
}

// In reports whether all dates are among others: to the minute, or to the day if one of the two has no time.
func (d Dates) In(others Dates) bool { return datesIn(d, others) }

// Meets reports whether a date is so near one of others that both may be the same.
func (d Dates) Meets(others Dates) bool {
	same, _ := startsAgree(d, others)
	return same
}

// Bond names what connects two observations besides their details, the weakest first.
type Bond int

// Bonds. A change of title or start alone is the same event at one address; pages are reused for other events, whose
// title and start are both new.
const (
	Nothing     Bond = iota // as of two sources
	Beside                  // a source shows both as two
	OtherPage               // two pages of one source, as of two sources: only equal starts and ends are the same
	Translation             // versions of a page in other languages: only equal starts and ends at one place are the same
	Replaced                // a page shows the one in place of the other: only equal titles, starts and ends are the same
	Address                 // a page address
	Identifier              // an identifier of one source
)

// Verdict is the result of a comparison.
type Verdict struct {
	Same bool
	// Score is the similarity of the titles, Place that of the places, from 0 to 1.
	Score, Place float64
	// Reason names the deciding rule. It is stored.
	Reason Reason
}

// Reason is the deciding rule of a comparison.
type Reason string

// Reasons of verdicts.
const (
	ByEvidence     Reason = "evidence" // they share a strong key
	ByMatch        Reason = "match"
	OtherStart     Reason = "start"
	OtherPlace     Reason = "place"
	OtherRoom      Reason = "room" // another room of the same house
	OtherTitle     Reason = "title"
	OtherKind      Reason = "qualifier"  // for other people, in another language, another part
	UnknownPlace   Reason = "noPlace"    // and titles that are not distinctive enough
	ShownTogether  Reason = "sideBySide" // a source shows both as two
	KeptApart      Reason = "split"      // an operator has split them
	SharedEvidence Reason = "sharedKey"  // they share a key and differ in everything else: the key identifies neither
)

const (
	alike    = 0.62 // equivalent titles
	replaced = 0.76 // equivalent if each has a word in place of one of the other's
	helped   = 0.40 // equivalent if image or organizer are the same too
	certain  = 0.90 // equivalent if the place isn't known
)

// Compare decides whether two subjects are the same happening. It is the one decision, for pages of one source and for
// happenings of several: the bond says what they share besides their details.
func Compare(a, b Subject, bond Bond) Verdict {
	if (bond == OtherPage || bond == Replaced || bond == Translation) && !datesEqual(a.starts, b.starts) {
		return Verdict{Reason: OtherStart}
	}
	same, exact := startsAgree(a.starts, b.starts)
	t := compareTitles(a.title.without(a.place, b.place), b.title.without(a.place, b.place))
	where := a.place.compare(b.place)
	v := Verdict{Score: math.Round(t.score*100) / 100, Place: a.place.likeness(b.place, where)}
	decide := func(same bool, otherwise Reason) Verdict {
		if v.Same, v.Reason = same, otherwise; same {
			v.Reason = ByEvidence
		}
		return v
	}
	switch {
	case bond == Identifier:
		return decide(true, "")
	case bond == Address:
		return decide(same || a.unknown() || b.unknown() || (t.within || t.score >= alike) && !t.otherKind, SharedEvidence)
	case bond == Replaced:
		return decide(a.plain != "" && a.plain == b.plain, OtherTitle)
	case bond == Translation:
		return decide(where != otherPlace && where != otherRoom, OtherPlace)
	case sharesKey(a.keys, b.keys):
		// Another date alone says little: one source may not show a move yet.
		return decide(same || t.score >= alike && !t.otherKind, SharedEvidence)
	}
	switch {
	case !same:
		v.Reason = OtherStart
	case where == otherPlace:
		v.Reason = OtherPlace
	case where == otherRoom:
		v.Reason = OtherRoom
	case t.otherKind:
		v.Reason = OtherKind
	case bond == Beside:
		v.Reason = ShownTogether
	case where == unknownPlace && (t.score < certain || min(a.title.count, b.title.count) < 2 || !exact):
		v.Reason = UnknownPlace
	case !t.alike(a.supports(b)):
		v.Reason = OtherTitle
	default:
		v.Same, v.Reason = true, ByMatch
	}
	return v
}

// unknown reports whether nothing can speak against a subject.
func (s Subject) unknown() bool { return len(s.starts) == 0 || len(s.title.all) == 0 }

// supports reports whether something beside title, place and time is the same.
func (s Subject) supports(o Subject) bool {
	return s.image != "" && s.image == o.image || s.organizer != "" && s.organizer == o.organizer
}

func sharesKey(a, b []string) bool {
	return slices.ContainsFunc(a, func(key string) bool { return slices.Contains(b, key) })
}

// startsAgree reports whether two subjects have a start in common, and whether to the minute.
func startsAgree(a, b []start) (same, exact bool) {
	for _, x := range a {
		for _, y := range b {
			switch {
			case x.allDay || y.allDay:
				same = same || x.day == y.day
				exact = exact || x.allDay && y.allDay && x.day == y.day
			case x.at.Equal(y.at):
				return true, true
			case x.at.Sub(y.at).Abs() <= Together:
				same = true
			}
		}
	}
	return same, exact
}

// datesEqual reports whether all starts of one subject are starts of the other, and no ends differ.
func datesEqual(a, b []start) bool { return datesIn(a, b) || datesIn(b, a) }

func datesIn(a, b []start) bool {
	return len(a) > 0 && !slices.ContainsFunc(a, func(x start) bool { return !slices.ContainsFunc(b, x.held) })
}

// held reports whether two starts are of one instance: to the minute, or to the day if one of the two has no time.
func (s start) held(o start) bool {
	if s.allDay || o.allDay {
		return s.day == o.day
	}
	return s.at.Equal(o.at) && (s.end.IsZero() || o.end.IsZero() || s.end.Equal(o.end))
}

// cell returns a square of the map, about 450 m high.
func cell(lat, lng float64) string {
	const size = 0.004
	width := size / max(0.1, math.Cos(lat*math.Pi/180))
	band := math.Floor(lat / size)
	width = math.Round(width*1000) / 1000 // equal in the whole band
	return strconv.Itoa(int(band)) + "," + strconv.Itoa(int(math.Floor(lng/width))) + "," + strconv.FormatFloat(width,
		'f', 3, 64)
}

// metres returns the distance of two points near each other.
func metres(a, b happening.Coordinates) float64 {
	const degree = 111_195
	dx := (a.Lng - b.Lng) * math.Cos((a.Lat+b.Lat)/2*math.Pi/180)
	return degree * math.Hypot(a.Lat-b.Lat, dx)
}

func firstOf(list []string, n int) []string {
	list = slices.Clone(list)
	slices.SortFunc(list, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	list = slices.Compact(list)
	return list[:min(n, len(list))]
}
