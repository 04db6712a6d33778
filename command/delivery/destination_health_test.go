package delivery

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/eventstore"
	"carillon/eventstore/processtest"
)

func watchHealth(t *testing.T, after int, streak time.Duration) rule {
	t.Helper()
	r := rule{processtest.Of(t, func(store eventstore.Store) eventstore.ProcessManager {
		return NewDestinationHealth(store, HealthPolicy{After: after, MinStreak: streak},
			slog.New(slog.DiscardHandler))
	})}
	processtest.Given(r.Rule, destination.Aggregate, hook,
		destination.Event(destination.Created{Organization: alice,
			Settings: destination.Settings{URL: "https://example.org"}}))
	return r
}

// answers records an attempt of a new delivery, some minutes after noon; reason is empty for a success.
func (r rule) answers(minutes, status int, reason delivery.Failure, renumberedFrom int) {
	processtest.Given(r.Rule, delivery.Aggregate, uuid.New(), delivery.Event(delivery.Attempted{
		Organization:   alice,
		Destination:    hook,
		Number:         1 + renumberedFrom,
		RenumberedFrom: renumberedFrom,
		Trigger:        delivery.Automatic,
		Outcome:        delivery.Outcome{ResponseStatus: status, FailureReason: reason},
		Status:         delivery.StatusFailed,
		At:             noon.Add(time.Duration(minutes) * time.Minute),
	}))
}

var autoDisabled = destination.Aggregate.Stream(hook) + " destination.auto-disabled.v1"

func TestDestinationHealth_longStreakDisables(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 3, time.Hour)
	r.answers(0, 500, "http_status", 0)
	r.answers(1, 500, "http_status", 0)
	r.answers(2, 0, "timeout", 0)
	r.Then() // often enough, but not for long
	r.answers(61, 500, "http_status", 0)
	r.Then(autoDisabled)
	r.answers(62, 500, "http_status", 0)
	r.Then() // it is disabled
}

func TestDestinationHealth_successEndsStreak(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	r.answers(1, 204, "", 0)
	r.answers(2, 500, "http_status", 0)
	r.Then()
}

func TestDestinationHealth_goneDisablesAtOnce(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 100, time.Hour)
	r.answers(0, 410, "gone", 0)
	r.Then(autoDisabled)
}

// An attempt that lost its race was sent because Postgres had forgotten who sends it, not because the endpoint failed
// once more.
func TestDestinationHealth_lostRaceIsNoFailure(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	r.answers(0, 500, "http_status", 1)
	r.Then()
	r.answers(1, 500, "http_status", 0)
	r.Then(autoDisabled)
}

func TestDestinationHealth_enablingResets(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	processtest.Given(r.Rule, destination.Aggregate, hook, destination.Event(destination.Disabled{}),
		destination.Event(destination.Enabled{}))
	r.answers(1, 500, "http_status", 0)
	r.Then()
	r.answers(2, 500, "http_status", 0)
	r.Then(autoDisabled)
}

// A destination whose stream another client of the event store has deleted is not disabled.
func TestDestinationHealth_deletedStream(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 100, time.Hour)
	r.ends(t, destination.Aggregate.Stream(hook))
	r.answers(0, 410, "gone", 0)
	r.Then()
}
