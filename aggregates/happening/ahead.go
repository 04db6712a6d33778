package happening

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

// Ahead says that some occurrence is not over at a time.
func (d Details) Ahead(at time.Time) bool { return d.Last().After(at) }

// ChangedAhead says that something still to come differs from what was told before: what is over at a time, and dates
// from the horizon on, count for nothing. Nor do ids, or the words that follow from all dates. Where neither has a date
// in between, nothing that is told of it matters.
func (d Details) ChangedAhead(before Details, at, horizon time.Time) bool {
	dates, earlier := d.between(at, horizon), before.between(at, horizon)
	if len(dates) == 0 && len(earlier) == 0 {
		return false
	}
	return !slices.EqualFunc(dates, earlier, Occurrence.Equal) || !d.timeless().Equal(before.timeless())
}

// between gives the occurrences that are not over at a time and begin before another, without their ids, in order. One
// is as its instance is, unless it says something itself.
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

// timeless is all but the dates and what follows from them.
func (d Details) timeless() Details {
	d.Instances = nil
	d.Time = Time{Timezone: d.Time.Timezone}
	return d
}
