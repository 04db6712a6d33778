package adapters_test

import (
	"context"
	"testing"
	"time"

	"carillon/aggregates/destination"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
)

// While a destination rests, no worker claims anything for it, and each hears of it; a change of it ends the rest.
func TestRestHoldsForAllWorkers(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	run(t, func(ctx context.Context) error {
		s.runner.Progress.Listen(ctx, s.runner.Locks)
		return nil
	})
	mine, _ := s.queue(0)
	theirs, _ := s.queue(time.Hour) // whatever its clock says
	s.claims(mine, s.schedule())
	s.claims(theirs, s.schedule())

	heard := make(chan struct{}, 1)
	theirs.OnRest(func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	for listening := false; !listening; { // it may not have begun to
		must.OK(t, mine.Rest(t.Context(), s.destination, time.Hour))
		select {
		case <-heard:
			listening = true
		case <-time.After(5 * time.Millisecond):
		}
	}
	waiting := s.schedule()
	must.OK(t, s.runner.Newest(t.Context(), deliveries.ReadModel))
	for range 5 {
		if ids, ready := s.claim(mine); len(ids) > 0 || !ready {
			t.Fatalf("claimed %v in a rest", ids)
		}
		if ids, ready := s.claim(theirs); len(ids) > 0 || !ready {
			t.Fatalf("another worker claimed %v in a rest", ids)
		}
	}
	left := theirs.Resting()[s.destination]
	if ends, planned := theirs.NextDue(); left <= 0 || left > time.Hour || !planned || ends.Sub(theirs.Now()) > time.Hour {
		t.Errorf("rests for %s, looks again at %s", left, ends)
	}
	url := "https://example.org/new"
	must.Get(destination.Aggregate.Execute(t.Context(), s.store, s.destination,
		destination.Revise{
			Organization: s.organization,
			Sets:         destination.FieldURL,
			Settings:     destination.Settings{URL: url},
			At:           time.Now(),
		}, destination.Options{}))(t)
	s.claims(theirs, waiting)
}
