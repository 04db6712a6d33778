package autodisable

import (
	"log/slog"
	"testing"
	"time"

	"carillon/aggregates/destination"
	"carillon/command/delivery/deliverytest"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

var (
	hook = deliverytest.Hook
)

func watched(t *testing.T, after int, streak time.Duration) deliverytest.Town {
	t.Helper()
	return deliverytest.WithHook(t, func(store eventstore.Store) eventstore.ProcessManager {
		return New(store, Policy{After: after, MinStreak: streak}, slog.New(slog.DiscardHandler))
	})
}

var autoDisabled = destination.Aggregate.Stream(hook) + " destination.auto-disabled.v1"

func TestManager_longStreakDisables(t *testing.T) {
	t.Parallel()
	r := watched(t, 3, time.Hour)
	r.Answers(0, 500, "http_status", 0)
	r.Answers(1, 500, "http_status", 0)
	r.Answers(2, 0, "timeout", 0)
	r.Then() // often enough, but not for long
	r.Answers(61, 500, "http_status", 0)
	r.Then(autoDisabled)
	r.Answers(62, 500, "http_status", 0)
	r.Then() // it is disabled
}

func TestManager_successEndsStreak(t *testing.T) {
	t.Parallel()
	r := watched(t, 2, 0)
	r.Answers(0, 500, "http_status", 0)
	r.Answers(1, 204, "", 0)
	r.Answers(2, 500, "http_status", 0)
	r.Then()
}

// An attempt that lost its race was sent because Postgres had forgotten who sends it, not because the endpoint failed
// once more.
func TestManager_lostRaceIsNoFailure(t *testing.T) {
	t.Parallel()
	r := watched(t, 2, 0)
	r.Answers(0, 500, "http_status", 0)
	r.Answers(0, 500, "http_status", 1)
	r.Then()
	r.Answers(1, 500, "http_status", 0)
	r.Then(autoDisabled)
}

func TestManager_enablingResets(t *testing.T) {
	t.Parallel()
	r := watched(t, 2, 0)
	r.Answers(0, 500, "http_status", 0)
	processtest.Given(r.Rule, destination.Aggregate, hook)(destination.Disabled{}, destination.Enabled{})
	r.Answers(1, 500, "http_status", 0)
	r.Then()
	r.Answers(2, 500, "http_status", 0)
	r.Then(autoDisabled)
}

// A destination whose stream another client of the event store has deleted is not disabled.
func TestManager_deletedStream(t *testing.T) {
	t.Parallel()
	r := watched(t, 100, time.Hour)
	r.Tombstone(destination.Aggregate.Stream(hook))
	r.Answers(0, 410, "gone", 0)
	r.Then()
}
