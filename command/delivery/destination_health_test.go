package delivery

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/eventstore"
)

func watchHealth(t *testing.T, after int, streak time.Duration) *rule {
	t.Helper()
	r := ruleOf(t, func(store eventstore.Store) eventstore.ProcessManager {
		return NewDestinationHealth(store, HealthPolicy{After: after, MinStreak: streak})
	})
	given(r, destination.Aggregate, hook, destination.Event(destination.Created{Organization: alice, Settings: destination.Settings{URL: "https://example.org"}}))
	return r
}

// answers records an attempt of a new delivery, some minutes after noon; reason is empty for a success.
func (r *rule) answers(minutes, status int, reason string, renumberedFrom int) {
	r.t.Helper()
	given(r, delivery.Aggregate, uuid.New(), delivery.Event(delivery.Attempted{
		Organization: alice, Destination: hook, Number: 1 + renumberedFrom, RenumberedFrom: renumberedFrom, Trigger: delivery.Automatic,
		Outcome: delivery.Outcome{ResponseStatus: status, FailureReason: reason}, Status: delivery.StatusFailed,
		At: noon.Add(time.Duration(minutes) * time.Minute),
	}))
}

var autoDisabled = destination.Aggregate.Stream(hook) + " destination.auto-disabled.v1"

func TestADestinationThatFailsForLongIsDisabled(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 3, time.Hour)
	r.answers(0, 500, "http_status", 0)
	r.answers(1, 500, "http_status", 0)
	r.answers(2, 0, "timeout", 0)
	r.then() // often enough, but not for long
	r.answers(61, 500, "http_status", 0)
	r.then(autoDisabled)
	r.answers(62, 500, "http_status", 0)
	r.then() // it is disabled
}

func TestASuccessEndsTheStreak(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	r.answers(1, 204, "", 0)
	r.answers(2, 500, "http_status", 0)
	r.then()
}

func TestADestinationThatIsGoneIsDisabledAtOnce(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 100, time.Hour)
	r.answers(0, 410, "gone", 0)
	r.then(autoDisabled)
}

// An attempt that lost its race was sent because Postgres had forgotten who sends it, not because the endpoint failed
// once more.
func TestAnAttemptThatLostItsRaceIsNoFurtherFailure(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	r.answers(0, 500, "http_status", 1)
	r.then()
	r.answers(1, 500, "http_status", 0)
	r.then(autoDisabled)
}

func TestEnablingBeginsAFreshStreak(t *testing.T) {
	t.Parallel()
	r := watchHealth(t, 2, 0)
	r.answers(0, 500, "http_status", 0)
	given(r, destination.Aggregate, hook, destination.Event(destination.Disabled{}), destination.Event(destination.Enabled{}))
	r.answers(1, 500, "http_status", 0)
	r.then()
	r.answers(2, 500, "http_status", 0)
	r.then(autoDisabled)
}
