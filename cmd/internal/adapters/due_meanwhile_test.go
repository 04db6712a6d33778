package adapters_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	deliveryaggregate "carillon/aggregates/delivery"
	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
)

// Deliveries that become due during a claim, beside due ones that the claim may not take, are not delayed: the next due
// time includes them, although it has passed by then.
func TestClaim_seesDeliveriesDueMeanwhile(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	q, _ := s.queue(0)
	s.schedule() // for a destination that is full
	ask := schedule.Room{
		PerDestination: 10,
		Limit:          10,
		Full:           []uuid.UUID{s.destination},
	}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		due := s.retried(s.schedule(), 500*time.Millisecond)
		looked := false
		for q.Now().Before(due) {
			_, err := q.Claim(s.Context(), ask, claimLease)
			next, planned := q.NextDue()
			if looked = err == nil && planned && next.Equal(due); looked {
				break
			}
			<-time.After(5 * time.Millisecond)
		}
		for q.Now().Before(due) {
			<-time.After(5 * time.Millisecond)
		}
		if !looked {
			continue // it was due before anything could be claimed: once more
		}
		if next, planned := q.NextDue(); !planned || !next.Equal(due) {
			t.Errorf("next due at %v (planned: %t), want what has become due at %v", next, planned, due)
		}
		return
	}
	t.Error("no claim was made before the retry was due")
}

// retried records that a delivery failed and is due again after a wait.
func (s *queueFixture) retried(id uuid.UUID, wait time.Duration) time.Time {
	s.Helper()
	recorded := must.Get(deliveryaggregate.Aggregate.Execute(s.Context(), s.store, id, deliveryaggregate.RecordAttempt{
		Organization: s.organization,
		Destination:  s.destination,
		Number:       1,
		Trigger:      deliveryaggregate.Automatic,
		Outcome:      deliveryaggregate.Outcome{ResponseStatus: 503, FailureReason: "http_status"},
		At:           time.Now().UTC().Truncate(time.Microsecond),
		Retry:        deliveryaggregate.Retry{Schedule: []time.Duration{wait}},
	}, deliveryaggregate.Options{}))(s)
	return recorded.State.NextAttemptAt
}
