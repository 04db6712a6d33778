package happening

import (
	"slices"
	"time"

	"github.com/google/uuid"
)

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
