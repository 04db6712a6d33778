package happening_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
)

// eventful returns details with an instance of one occurrence for each start.
func eventful(title string, starts ...time.Time) happening.Details {
	d := happening.Details{Title: title, Time: happening.Time{Timezone: "Europe/Rome"}}
	for i, start := range starts {
		d.Instances = append(d.Instances, happening.Instance{ID: uuid.New(), Status: happening.Scheduled,
			Occurrences: []happening.Occurrence{
				{ID: uuid.New(), Start: start, Status: happening.Scheduled},
			}})
		if end := start.Add(time.Hour); i%2 == 0 {
			d.Instances[i].Occurrences[0].End = &end
		}
	}
	return d
}

// Past dates, dates beyond the horizon, ids and descriptions of all dates may change without a change ahead.
func TestChangedAhead_ignoresPast(t *testing.T) {
	t.Parallel()
	const horizon = 400 * 24 * time.Hour
	at := time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)
	rapid.Check(t, func(t *rapid.T) {
		draw := func(what string, from, to time.Duration) []time.Time {
			var starts []time.Time
			for _, hour := range rapid.SliceOfNDistinct(rapid.Int64Range(int64(from/time.Hour), int64(to/time.Hour)-1), 0, 6,
				rapid.ID[int64]).Draw(t, what) {
				starts = append(starts, at.Add(time.Duration(hour)*time.Hour))
			}
			return starts
		}
		with := func(title string, ahead []time.Time) happening.Details {
			starts := append(draw("past", -horizon, -time.Hour), ahead...)
			d := eventful(title, append(starts, draw("beyond", horizon, 2*horizon)...)...)
			for i := range d.Instances { // ends of those ahead stay
				if d.Instances[i].Occurrences[0].Start.After(at) {
					d.Instances[i].Occurrences[0].End = nil
				}
			}
			d.Time.DisplayText = rapid.StringN(0, 5, -1).Draw(t, "words")
			d.Time.TemporalPattern = rapid.SampledFrom([]happening.Pattern{happening.Singular, happening.Recurring}).
				Draw(t, "pattern")
			return d
		}
		ahead := draw("ahead", 2*time.Hour, horizon)
		before, after := with("Concert", ahead), with("Concert", ahead)
		horizonAt := at.Add(horizon)
		if after.ChangedAhead(before, at, horizonAt) || before.ChangedAhead(after, at, horizonAt) {
			t.Fatalf("something ahead has changed\nfrom %+v\nto   %+v", before, after)
		}
		if renamed := with("Recital", ahead); renamed.ChangedAhead(before, at, horizonAt) != (len(ahead) > 0) {
			t.Fatalf("a title counts by whether something is ahead, here %d dates", len(ahead))
		}
		if len(ahead) == 0 {
			return
		}
		which := rapid.IntRange(0, len(ahead)-1).Draw(t, "which")
		fewer := append(append([]time.Time{}, ahead[:which]...), ahead[which+1:]...)
		moved := append(append([]time.Time{}, fewer...), ahead[which].Add(time.Minute))
		for what, other := range map[string]happening.Details{"gone": with("Concert", fewer),
			"moved": with("Concert", moved)} {
			if !other.ChangedAhead(before, at, horizonAt) || !before.ChangedAhead(other, at, horizonAt) {
				t.Fatalf("a date to come is %s, and nothing has changed\nfrom %+v\nto   %+v", what, before, other)
			}
		}
		after.Instances[len(after.Instances)-1].Status = happening.Cancelled // of the last one: beyond the horizon, or ahead
		last := after.Instances[len(after.Instances)-1].Occurrences[0].Start
		if got := after.ChangedAhead(before, at, horizonAt); got != (last.After(at) && last.Before(horizonAt)) {
			t.Fatalf("cancelled at %s: changed %t", last, got)
		}
	})
}
