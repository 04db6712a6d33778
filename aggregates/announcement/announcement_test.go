package announcement_test

import (
	"testing"
	"time"

	"carillon/aggregates/announcement"
	"carillon/eventstore/aggregatetest"
	"carillon/eventstore/storetest/assert"
)

var (
	noon = time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	made = announcement.Made{
		Act: "retire_events",
		Due: 300,
		Of:  1000,
		At:  noon,
	}
)

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[announcement.Event](t, announcement.Events, made)
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	aggregatetest.Table(t, announcement.Aggregate).
		State("none").
		State("made", made).
		When(announcement.Make(made), "Made", "Made")
}

// Stream ids must never change.
func TestStreamIDsNeverChange(t *testing.T) {
	t.Parallel()
	assert.Equal(t, announcement.StreamID("retire_events").String(), "ea8d9666-02bb-5543-9299-ad492fb1fca0",
		"the stream of an act … now")
}

// An announcement counts from the first one on, unless the clock or the share leaps in between.
func TestAnnouncedSince(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		due   int
		after time.Duration
		fresh bool
	}{
		"an hour later":           {due: 300, after: time.Hour},
		"grown by the day":        {due: 400, after: 24 * time.Hour},
		"less":                    {due: 1, after: time.Hour},
		"much more":               {due: 401, after: time.Hour, fresh: true},
		"time went back":          {due: 300, after: -time.Second, fresh: true},
		"not for three days":      {due: 300, after: 72 * time.Hour, fresh: true},
		"after the clock leapt":   {due: 300, after: 365 * 24 * time.Hour, fresh: true},
		"nothing is due any more": {due: 0, after: time.Hour},
	} {
		next := made
		next.Due, next.At = c.due, noon.Add(c.after)
		var state announcement.State
		for _, e := range []announcement.Made{made, next} {
			state = announcement.Aggregate.Evolve(state, e)
		}
		want := announcement.State{Since: noon, Last: next.At, Due: min(made.Due, next.Due)}
		if c.fresh {
			want.Since, want.Due = next.At, next.Due
		}
		assert.Equal(t, state, want, "%s", name)
	}
}
