package adapters_test

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	deliveryaggregate "carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/cmd/internal/adapters"
	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/publications"
)

const claimLease = 30 * time.Minute // nothing here waits for its end

// queueFixture is the shared part of deliverers: the event store, and the read models that they claim from.
type queueFixture struct {
	*testing.T
	*parts
	organization, destination uuid.UUID
}

// newQueueFixture makes the parts for a test, which runs in parallel.
func newQueueFixture(t *testing.T) *queueFixture {
	t.Helper()
	t.Parallel()
	s := &queueFixture{
		T:            t,
		parts:        startParts(t, destinations.ReadModel, publications.ReadModel),
		organization: uuid.New(),
		destination:  uuid.New(),
	}
	must.Get(destination.Aggregate.Execute(t.Context(), s.store, s.destination, destination.Create{
		Organization: s.organization,
		Settings:     destination.Settings{Name: "CRM", URL: "https://example.org/"},
		SecretID:     uuid.New(),
		At:           time.Now(),
	}, destination.Options{}))(t)
	return s
}

func (s *queueFixture) project(m projections.ReadModel) (stop func()) {
	return run(s.T, func(ctx context.Context) error { return s.runner.Project(ctx, m) })
}

// schedule records a delivery that is due now.
func (s *queueFixture) schedule() (id uuid.UUID) {
	s.Helper()
	event := uuid.New()
	_, err := publication.Aggregate.Execute(s.Context(), s.store, event,
		publication.Publish{Published: publication.Published{
			Organization: s.organization,
			Type:         "news.item.added",
			Source:       "/news",
			Time:         time.Now(),
			Data:         []byte(`{}`),
		}}, publication.Options{})
	if err == nil {
		_, err = dispatch.Aggregate.Execute(s.Context(), s.store, event,
			dispatch.Schedule{DeliveriesScheduled: dispatch.DeliveriesScheduled{
				Publication: event,
				Event:       dispatch.Summary{Type: "news.item.added", Source: "/news", Time: time.Now()},
				At:          time.Now().UTC(),
				Deliveries:  []dispatch.Scheduled{{Destination: s.destination, Organization: s.organization}},
			}}, dispatch.Options{})
	}
	must.OK(s, err)
	return dispatch.DeliveryID(event, s.destination)
}

// attempted records the first attempt of a delivery, and returns when the next one is due if it failed.
func (s *queueFixture) attempted(id uuid.UUID, o deliveryaggregate.Outcome, wait ...time.Duration) (next time.Time) {
	s.Helper()
	recorded := must.Get(deliveryaggregate.Aggregate.Execute(s.Context(), s.store, id, deliveryaggregate.RecordAttempt{
		Organization: s.organization,
		Destination:  s.destination,
		Number:       1,
		Trigger:      deliveryaggregate.Automatic,
		Outcome:      o,
		At:           time.Now().UTC().Truncate(time.Microsecond),
		Retry:        deliveryaggregate.Retry{Schedule: wait},
	}, deliveryaggregate.Options{}))(s)
	return recorded.State.NextAttemptAt
}

func (s *queueFixture) succeed(id uuid.UUID) {
	s.Helper()
	s.attempted(id, deliveryaggregate.Outcome{ResponseStatus: 204})
}

// queue is that of one more worker, whose clock is wrong by some time.
func (s *queueFixture) queue(wrong time.Duration) (q *adapters.DeliveryQueue, die func()) {
	s.Helper()
	q = adapters.NewDeliveryQueue(s.runner, func() time.Time { return time.Now().Add(wrong) })
	die = run(s.T, func(ctx context.Context) error {
		q.StayAlive(ctx, slog.New(slog.DiscardHandler))
		return nil
	})
	return q, die
}

// claim claims once, and fails the test on any error but that the queue is not ready.
func (s *queueFixture) claim(q *adapters.DeliveryQueue) (ids []uuid.UUID, ready bool) {
	s.Helper()
	claimed, err := q.Claim(s.Context(), schedule.Room{PerDestination: 10, Limit: 10}, claimLease)
	// it is slow to answer
	must.True(s, err == nil || errors.Is(err, sending.ErrNotReady) || errors.Is(err, eventstore.ErrUnavailable), "%v", err)
	for _, one := range claimed {
		ids = append(ids, one.ID)
	}
	return ids, err == nil
}

// claims polls until a worker has claimed exactly one delivery.
func (s *queueFixture) claims(q *adapters.DeliveryQueue, want uuid.UUID) {
	s.Helper()
	must.Eventually(s, "it is claimed", func() bool {
		ids, _ := s.claim(q)
		must.True(s, len(ids) == 0 || len(ids) == 1 && ids[0] == want, "claimed %v, want %s", ids, want)
		return len(ids) == 1
	})
}

// claimed polls until a worker has claimed n deliveries.
func (s *queueFixture) claimed(q *adapters.DeliveryQueue, want int) {
	s.Helper()
	got := 0
	must.Eventually(s, "all are claimed", func() bool {
		ids, _ := s.claim(q)
		got += len(ids)
		return got >= want
	})
}

func TestNothingIsClaimedWithoutTheOwnLock(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	mine, die := s.queue(0)
	s.claims(mine, s.schedule())
	s.schedule()
	die()
	for range 20 {
		ids, ready := s.claim(mine)
		must.True(t, !ready, "claimed %v without a lock", ids)
	}
	theirs, _ := s.queue(0)
	theirs.TakeOverAfter(0)
	s.claimed(theirs, 2) // waiting ones, and those of the dead worker
}

func (s *queueFixture) eventuallyHolds(q *adapters.DeliveryQueue, losses int) {
	s.Helper()
	must.Eventually(s, "the lock is taken again", func() bool {
		n, sure := q.Holding()
		return n >= losses && sure
	})
}

// Succeeded deliveries are not sent again because the read model is behind: neither after a start, nor when a lease has
// ended, nor when this worker has forgotten its leases.
func TestClaimsWaitForTheReadModel(t *testing.T) {
	s := newQueueFixture(t)
	stop := s.project(deliveries.ReadModel)
	mine, _ := s.queue(0)
	theirs, die := s.queue(0)
	done, forgotten := s.schedule(), s.schedule()
	s.claimed(theirs, 2)
	stop()
	s.succeed(done)
	starting, _ := s.queue(0)
	die()
	mine.TakeOverAfter(0)
	for range 5 {
		ids, _ := s.claim(mine)
		must.True(t, len(ids) == 0, "%v was taken from a dead worker before the read model knew what came of it", ids)
	}
	if ids, ready := s.claim(starting); ready {
		t.Fatalf("%v was claimed before the read model was at the head of the start", ids)
	}
	s.project(deliveries.ReadModel)
	s.claims(mine, forgotten)
	if ids, _ := s.claim(starting); len(ids) > 0 {
		t.Errorf("claimed %v again", ids)
	}
}

func TestWorkerReleasesForgottenLeases(t *testing.T) {
	s := newQueueFixture(t)
	stop := s.project(deliveries.ReadModel)
	mine, _ := s.queue(0)
	known, forgotten, done := s.schedule(), s.schedule(), s.schedule()
	s.claimed(mine, 3)
	stop()
	s.succeed(done)
	recovered := func() int {
		n, err := mine.Recover(t.Context(), claimLease+time.Minute, func(id uuid.UUID) bool { return id == known })
		must.True(t, err == nil || errors.Is(err, sending.ErrNotReady), "%v", err)
		return n
	}
	assert.Equal(t, recovered(), 0, "gave back … before the read model knew what came of them")
	s.project(deliveries.ReadModel)
	must.Eventually(t, "something is given back", func() bool { return recovered() > 0 })
	s.claims(mine, forgotten)
	ids, _ := s.claim(mine)
	assert.True(t, len(ids) == 0, "claimed %v again", ids)
}

// Leases are counted by Postgres' clock: a process whose own is wrong neither takes what others hold nor loses its own.
func TestWrongClockMovesNoLease(t *testing.T) {
	t.Parallel()
	for name, wrong := range map[string]time.Duration{"ahead": time.Hour, "behind": -time.Hour} {
		t.Run(name, func(t *testing.T) {
			s := newQueueFixture(t)
			s.project(deliveries.ReadModel)
			right, _ := s.queue(0)
			off, _ := s.queue(wrong)
			s.claims(right, s.schedule())
			s.claims(off, s.schedule())
			for range 20 {
				for _, q := range []*adapters.DeliveryQueue{right, off} {
					ids, _ := s.claim(q)
					must.True(t, len(ids) == 0, "claimed %v, which another worker holds", ids)
				}
			}
			if _, known := off.Worker(); !known || time.Until(off.Now()).Abs() > time.Minute {
				t.Errorf("its time is %s", off.Now())
			}
		})
	}
}

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

// Deliveries that become due during a claim, beside due ones that the claim may not take, are not delayed: the next due
// time includes them, although it has passed by then.
func TestClaim_seesDeliveriesDueMeanwhile(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	q, _ := s.queue(0)
	s.schedule() // for a destination that is full
	ask := schedule.Room{PerDestination: 10, Limit: 10, Full: []uuid.UUID{s.destination}}
	failed := deliveryaggregate.Outcome{ResponseStatus: 503, FailureReason: "http_status"}
	for deadline := time.Now().Add(patience); time.Now().Before(deadline); {
		due := s.attempted(s.schedule(), failed, 500*time.Millisecond)
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
