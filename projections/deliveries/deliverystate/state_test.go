package deliverystate_test

import (
	"slices"
	"testing"
	"time"

	"carillon/eventstore/storetest/assert"
	"carillon/projections/deliveries/deliverystate"
)

func TestStateOf(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		stored   string
		held     bool
		attempts int
		want     deliverystate.State
		status   string
	}{
		{"pending", false, 0, deliverystate.Waiting, "pending"},
		{"pending", false, 3, deliverystate.Retrying, "pending"},
		{"pending", true, 0, deliverystate.Delivering, "delivering"},
		{"pending", true, 3, deliverystate.Delivering, "delivering"},
		{"succeeded", false, 1, deliverystate.Succeeded, "succeeded"},
		{"succeeded", true, 1, deliverystate.Succeeded, "succeeded"}, // a replay is sent
		{"failed", false, 9, deliverystate.Failed, "failed"},
		{"superseded", false, 0, deliverystate.Superseded, "superseded"},
		{"discarded", false, 2, deliverystate.Discarded, "discarded"},
	} {
		got := deliverystate.Of(c.stored, c.held, c.attempts)
		if got != c.want || got.Status() != c.status {
			t.Errorf("%+v: %s, of status %s", c, got, got.Status())
		}
	}
}

func TestNamed(t *testing.T) {
	t.Parallel()
	for text, want := range map[string][]deliverystate.State{
		"":                  deliverystate.States(),
		"pending":           {deliverystate.Waiting, deliverystate.Retrying},
		"failing":           {deliverystate.Retrying, deliverystate.Failed},
		"retrying":          {deliverystate.Retrying},
		"failed, pending":   {deliverystate.Waiting, deliverystate.Retrying, deliverystate.Failed},
		"waiting,succeeded": {deliverystate.Waiting, deliverystate.Succeeded},
	} {
		set, known := deliverystate.Named(text)
		got := append(set.Live(), set.Ended()...)
		assert.True(t, known && slices.Equal(got, want), "%q: %v, %v, want %v", text, got, known, want)
	}
	for _, text := range []string{"lost", "failed,", "failed,lost", "FAILED"} {
		_, known := deliverystate.Named(text)
		assert.True(t, !known, "%q is known", text)
	}
}

func TestWaitOf(t *testing.T) {
	t.Parallel()
	now := time.Date(2026, 11, 28, 12, 0, 0, 0, time.UTC)
	later, latest := now.Add(time.Minute), now.Add(time.Hour)
	facts := func(state deliverystate.State, due *time.Time) deliverystate.Facts {
		attempts := 0
		if state == deliverystate.Retrying {
			attempts = 1
		}
		return deliverystate.Facts{
			State:       state,
			Held:        state == deliverystate.Delivering,
			Attempts:    attempts,
			DueAt:       due,
			Destination: "enabled",
			Now:         now,
		}
	}
	off := facts(deliverystate.Waiting, &later)
	off.Destination = "auto_disabled"
	replayed := facts(deliverystate.Failed, &now)
	replayed.Destination = "disabled"
	sent := replayed
	sent.Held = true
	suspended := off
	suspended.Suspended = true
	rests, rested := facts(deliverystate.Retrying, &later), facts(deliverystate.Retrying, &latest)
	rests.RestsUntil, rested.RestsUntil = &latest, &later
	for name, c := range map[string]struct {
		facts deliverystate.Facts
		want  deliverystate.Reason
		until time.Time
	}{
		"ended":                        {facts(deliverystate.Failed, nil), "", time.Time{}},
		"sent now":                     {facts(deliverystate.Delivering, &now), "", time.Time{}},
		"due":                          {facts(deliverystate.Waiting, &now), deliverystate.Turn, now},
		"debounced":                    {facts(deliverystate.Waiting, &later), deliverystate.Debounced, later},
		"retried":                      {facts(deliverystate.Retrying, &later), deliverystate.NextAttempt, later},
		"at rest":                      {rests, deliverystate.Resting, latest},
		"due after the rest":           {rested, deliverystate.NextAttempt, latest},
		"disabled":                     {off, deliverystate.Disabled, time.Time{}},
		"a replay to a disabled one":   {replayed, deliverystate.Turn, now},
		"a replay that is sent now":    {sent, "", time.Time{}},
		"disabled, and not ours to do": {suspended, deliverystate.Suspended, time.Time{}},
	} {
		got := deliverystate.WaitOf(c.facts)
		assert.True(t, got.For == c.want && got.Until.Equal(c.until), "%s: %+v, want %s until %s", name, got, c.want, c.until)
	}
}
