package happening

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Standing is the weight of a sighting among others. The values are stored.
type Standing int

// Standings, the lowest first.
const (
	// FromPost is the standing of a post.
	FromPost Standing = iota + 1
	// FromListing is the standing of a page or calendar with several happenings.
	FromListing
	// FromOwnPage is the standing of the happening's own page.
	FromOwnPage
	// FromPlatform is the standing of the platform's own record.
	FromPlatform
	// FromTranslation is the standing of the happening's page in another language than the source's, which counts as a
	// post does.
	FromTranslation
)

// rank treats an unknown standing, as old events have it, as a listing's.
func (s Standing) rank() Standing {
	switch s {
	case 0:
		return FromListing
	case FromTranslation:
		return FromPost
	default:
		return s
	}
}

// String returns the name of the standing for operators.
func (s Standing) String() string {
	switch s {
	case FromPost:
		return "post"
	case FromTranslation:
		return "translation"
	case FromOwnPage:
		return "ownPage"
	case FromPlatform:
		return "platform"
	default:
		return "listing"
	}
}

// Ahead reports whether an occurrence is not over at a time.
func (d Details) Ahead(at time.Time) bool { return d.Last().After(at) }

// ChangedAhead reports whether the details between at and horizon differ from before. Ids, and the words that describe
// all dates, are ignored. If neither has a date in that time, nothing differs.
func (d Details) ChangedAhead(before Details, at, horizon time.Time) bool {
	dates, earlier := d.between(at, horizon), before.between(at, horizon)
	if len(dates) == 0 && len(earlier) == 0 {
		return false
	}
	return !slices.EqualFunc(dates, earlier, Occurrence.Equal) || !d.timeless().Equal(before.timeless())
}

// between returns the occurrences that are not over at a time and begin before another, without ids, in order. An
// occurrence without a status has that of its instance.
func (d Details) between(from, to time.Time) []Occurrence {
	var dates []Occurrence
	for _, instance := range d.Instances {
		for _, o := range instance.Occurrences {
			if o.over(from) || !o.Start.Before(to) {
				continue
			}
			if o.Status == "" || o.Status == Scheduled {
				o.Status = instance.Status
			}
			o.ID = uuid.Nil
			dates = append(dates, o)
		}
	}
	slices.SortStableFunc(dates, func(a, b Occurrence) int { return a.Start.Compare(b.Start) })
	return dates
}

// timeless returns the details without the dates and the fields derived from them.
func (d Details) timeless() Details {
	d.Instances = nil
	d.Time = Time{Timezone: d.Time.Timezone}
	return d
}
