package happening_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"pgregory.net/rapid"

	"carillon/aggregates/happening"
	"carillon/eventstore/aggregatetest"
)

var other = uuid.MustParse("44444444-4444-4444-8444-444444444444")

func TestMergeAndSplit(t *testing.T) {
	t.Parallel()
	// Recorded in the one that stays.
	merge := happening.Merge{
		From:   other,
		Reason: "match",
		Score:  0.9,
		At:     now,
	}
	theirs := observe(concert("Concert (live)", 20), post)
	theirs.SourceID, theirs.Of = platform, other
	split := happening.Split{From: other, Sources: []uuid.UUID{platform}, At: now}
	stays := aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(merge).Then(happening.Merged(merge)).
		When(theirs).Then(happening.Observed(theirs)).
		When(happening.Separate{From: other, At: now}).Then(split)
	stays.When(merge).Refused(happening.ErrApart)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(happening.Separate{From: other, At: now}).Refused(happening.ErrNotMerged)

	// Recorded in the other one.
	into := happening.Merge{
		Into:   older,
		Reason: "match",
		Score:  0.9,
		At:     now,
	}
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(into).Then(happening.Merged(into)).
		When(happening.Merge{Into: other, At: now}).Refused(happening.ErrMergedElsewhere)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed, happening.Merged(into)).
		When(happening.Separate{Into: older, At: now}).Then(happening.Split{Into: older, At: now}).
		When(into).Refused(happening.ErrApart)
}

// A source with both happenings keeps its sighting of the one that stays after a split.
func TestSplit_removesSightings(t *testing.T) {
	t.Parallel()
	own := observe(concert("Concert", 20), block)
	own.Of = other
	third := own
	third.SourceID, third.Of = platform, older
	aggregatetest.Stream(t, happening.Aggregate).
		Of(observed, happening.Merged{From: other, Members: []uuid.UUID{older}, At: now}, happening.Observed(own),
			happening.Observed(third)).
		When(happening.Separate{From: other, At: now}).
		Then(happening.Split{
			From:    other,
			Members: []uuid.UUID{older},
			Sources: []uuid.UUID{platform},
			At:      now,
		}).
		When(own).Refused(happening.ErrNotMerged)
}

// A split member leaves the happening that it was merged into last; the other members stay.
func TestSplit_member(t *testing.T) {
	t.Parallel()
	theirs, member := observe(concert("Concert", 20), block), observe(concert("Concert", 20), block)
	theirs.SourceID, theirs.Of = platform, other
	member.SourceID, member.Of = uuid.MustParse("55555555-5555-4555-8555-555555555555"), older
	merge := happening.Merge{From: other, At: now}
	// an interrupted merge, repeated
	late := happening.Merge{From: other, Members: []uuid.UUID{older}, At: now}
	aggregatetest.Stream(t, happening.Aggregate).Of(observed).
		When(merge).Then(happening.Merged(merge)).
		When(theirs).Then(happening.Observed(theirs)).
		When(member).Refused(happening.ErrNotMerged)
	aggregatetest.Stream(t, happening.Aggregate).Of(observed, happening.Merged(merge)).
		When(late).Then(happening.Merged(late)).
		When(late).Then().
		When(theirs).Then(happening.Observed(theirs)).
		When(member).Then(happening.Observed(member)).
		When(happening.Separate{From: older, At: now}).
		Then(happening.Split{From: older, Sources: []uuid.UUID{member.SourceID}, At: now}).
		When(happening.Separate{From: older, At: now}).Then().
		When(theirs).Then().
		When(member).Refused(happening.ErrNotMerged)
}

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

// changed returns the event of the n-th occurrence as how modifies it.
func changed(d happening.Details, n int, how func(*happening.OccurrenceChanged)) happening.OccurrenceChanged {
	o := d.Instances[n].Occurrences[0]
	c := happening.OccurrenceChanged{
		InstanceID:   d.Instances[n].ID,
		OccurrenceID: o.ID,
		Title:        d.Title,
		Start:        o.Start,
		End:          o.End,
		Status:       o.Status,
		SourceID:     site,
		At:           now,
	}
	how(&c)
	return c
}

// from returns the observation of a source's own page at a time.
func from(t happening.Sighting, at time.Time) happening.Observe {
	return happening.Observe{
		SourceID: t.SourceID,
		Key:      "k",
		Details:  t.Details,
		Source:   t.Source,
		Standing: t.Standing,
		At:       at,
	}
}

func revised(o happening.Observe) happening.Revised {
	return happening.Revised{
		SourceID: o.SourceID,
		Details:  o.Details,
		Source:   o.Source,
		Standing: o.Standing,
		At:       o.At,
	}
}

func TestOccurrenceChanged_cancelledOnce(t *testing.T) {
	t.Parallel()
	tuesday := monday.AddDate(0, 0, 1)
	on, off := held("2026-12-05T20:00"), held("2026-12-05T20:00 cancelled")
	hall, town := from(by("hall", on), monday), from(by("town", on), monday)
	hallOff, townOff := from(by("hall", off), tuesday), from(by("town", off), tuesday)
	cancelled := changed(off, 0, func(c *happening.OccurrenceChanged) {
		c.PreviousStatus, c.SourceID, c.At = happening.Scheduled, hall.SourceID, tuesday
	})
	known := []happening.Event{happening.Observed(hall), happening.Observed(town)}

	// One source cancels, the other still shows it: it is cancelled.
	aggregatetest.Stream(t, happening.Aggregate).Of(known...).When(hallOff).Then(revised(hallOff), cancelled)
	// A second cancellation changes nothing, by a known or by a new source.
	aggregatetest.Stream(t, happening.Aggregate).Of(append(known, revised(hallOff))...).When(townOff).
		Then(revised(townOff))
	aggregatetest.Stream(t, happening.Aggregate).Of(known[0], revised(hallOff)).When(townOff).
		Then(happening.Observed(townOff))
	// A revocation changes nothing while the other source cancels.
	hallOn := from(by("hall", on), tuesday.AddDate(0, 0, 1))
	aggregatetest.Stream(t, happening.Aggregate).Of(append(known, revised(hallOff), revised(townOff))...).When(hallOn).
		Then(revised(hallOn))
	// The last revocation does.
	aggregatetest.Stream(t, happening.Aggregate).Of(append(known, revised(hallOff))...).When(hallOn).
		Then(revised(hallOn), changed(on, 0, func(c *happening.OccurrenceChanged) {
			c.PreviousStatus, c.SourceID, c.At = happening.Cancelled, hall.SourceID, hallOn.At
		}))
	// A page that is gone revokes nothing.
	gone := happening.MarkStale{SourceID: hall.SourceID, At: hallOn.At}
	aggregatetest.Stream(t, happening.Aggregate).Of(append(known, revised(hallOff))...).When(gone).
		Then(happening.WentStale(gone))
}

func TestOccurrenceChanged_moved(t *testing.T) {
	t.Parallel()
	tuesday := monday.AddDate(0, 0, 1)
	old, later := held("2026-12-05T20:00"), held("2026-12-12T20:00")
	hall, town := from(by("hall", old), monday), from(by("town", old), monday)
	moved := from(by("hall", later), tuesday)
	kept := moved // the same instance and occurrence
	kept.Details = held("2026-12-12T20:00")
	kept.Details.Instances[0].ID, kept.Details.Instances[0].Occurrences[0].ID = old.Instances[0].ID,
		old.Instances[0].Occurrences[0].ID
	aggregatetest.Stream(t, happening.Aggregate).Of(happening.Observed(hall), happening.Observed(town)).
		When(moved).
		Then(revised(kept), changed(kept.Details, 0, func(c *happening.OccurrenceChanged) {
			c.PreviousStart, c.SourceID, c.At = &old.Instances[0].Occurrences[0].Start, hall.SourceID, tuesday
		}))
	// The other follows, which changes nothing.
	townMoved, townKept := from(by("town", later), tuesday), kept
	townKept.SourceID, townKept.Source = town.SourceID, town.Source
	aggregatetest.Stream(t, happening.Aggregate).Of(happening.Observed(hall), happening.Observed(town), revised(kept)).
		When(townMoved).Then(revised(townKept))
}

func TestOccurrenceChanged_timeForDay(t *testing.T) {
	t.Parallel()
	day, hour := from(by("hall", held("2026-12-05")), monday), from(by("hall", held("2026-12-05T20:00")), monday)
	kept := hour
	kept.Details = held("2026-12-05T20:00")
	kept.Details.Instances[0].ID, kept.Details.Instances[0].Occurrences[0].ID = day.Details.Instances[0].ID,
		day.Details.Instances[0].Occurrences[0].ID
	aggregatetest.Stream(t, happening.Aggregate).Of(happening.Observed(day)).When(hour).Then(revised(kept))
}

func TestOccurrenceChanged_past(t *testing.T) {
	t.Parallel()
	hall := from(by("hall", held("2026-12-05T20:00")), monday)
	off := from(by("hall", held("2026-12-05T20:00 cancelled")), time.Date(2026, 12, 6, 9, 0, 0, 0, time.UTC))
	aggregatetest.Stream(t, happening.Aggregate).Of(happening.Observed(hall)).When(off).Then(revised(off))
}

// A sighting that begins or ends moves nothing if its start is the doors instead of the beginning.
func TestOccurrenceChanged_otherSighting(t *testing.T) {
	t.Parallel()
	hall := from(by("hall", held("2026-12-05T20:00")), monday)
	doors := from(by("town", held("2026-12-05T19:30")), monday.AddDate(0, 0, 1))
	aggregatetest.Stream(t, happening.Aggregate).Of(happening.Observed(hall)).
		When(doors).Then(happening.Observed(doors)).
		When(happening.MarkStale{SourceID: doors.SourceID, At: doors.At}).
		Then(happening.WentStale{SourceID: doors.SourceID, At: doors.At})
}
