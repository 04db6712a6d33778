package happening_test

import (
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/eventstore/aggregatetest"
)

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
