package sending

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/command/webhook"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
)

// panicking is a sender that panics for one address.
type panicking struct {
	*noting

	at string
}

func (p panicking) Send(ctx context.Context, r webhook.Request) webhook.Result {
	if r.URL == p.at {
		panic("planted")
	}
	return p.noting.Send(ctx, r)
}

// After a panic the deliverer goes on with the next deliveries. One whose attempt panics keeps its lease.
func TestDeliverer_survivesAPanic(t *testing.T) {
	t.Parallel()
	const bad, good = "https://example.org/bad", "https://example.org/good"
	for _, place := range []string{"claim", "schedule", "attempt"} {
		t.Run(place, func(t *testing.T) {
			t.Parallel()
			store, organization := nodetest.Start(t), uuid.New()
			first, second := claimedAt(t, store, organization, bad), claimedAt(t, store, organization, good)
			queue := &claims{released: make(chan uuid.UUID, 10)}
			queue.claim = func(n int) []*schedule.Delivery {
				switch {
				case n == 1 && place == "claim":
					panic("planted")
				case n == 1 && place == "schedule":
					return []*schedule.Delivery{nil}
				case n == 1:
					return []*schedule.Delivery{&first}
				case n == 2:
					return []*schedule.Delivery{&second}
				}
				return nil
			}
			sender := panicking{&noting{to: map[string]int{}, let: make(chan struct{})}, bad}
			s := &sending{t: t, Deliverer: deliverer(store, queue, sender)}
			end := s.begin()
			s.eventually("the next one is sent", func() bool {
				s.Wake()
				return sender.sent(good) == 1
			})
			if place == "attempt" && (!s.known(first.ID) || len(queue.released) > 0) {
				t.Error("the lease of the delivery that panics is given up")
			}
			close(sender.let)
			end()
		})
	}
}

// Requests in flight at a panic stay here and counted, and no other one is begun in the second after it.
func TestDeliverer_resetKeepsInFlight(t *testing.T) {
	t.Parallel()
	const first, second = "https://example.org/first", "https://example.org/second"
	store, organization := nodetest.Start(t), uuid.New()
	going, next := claimedAt(t, store, organization, first), claimedAt(t, store, organization, second)
	reset := make(chan struct{})
	queue := &claims{released: make(chan uuid.UUID, 10)}
	queue.claim = func(n int) []*schedule.Delivery {
		if n == 1 {
			return []*schedule.Delivery{&going}
		}
		select {
		case <-reset:
			reset = nil
			return []*schedule.Delivery{&next}
		default:
			return nil
		}
	}
	sender := &noting{to: map[string]int{}, let: make(chan struct{})}
	s := &sending{t: t, Deliverer: deliverer(store, queue, sender)}
	end := s.begin()
	s.eventually("the first one is sent", func() bool { return sender.sent(first) == 1 })
	s.guarded(func() { panic("planted") })()
	if _, running := s.Load(); running != 1 || !s.known(going.ID) || roomOf(s.Deliverer).Limit != 0 {
		t.Errorf("%d in flight; here: %t; room for %d", running, s.known(going.ID), roomOf(s.Deliverer).Limit)
	}
	close(reset)
	s.eventually("the next one is sent", func() bool { return sender.sent(second) == 1 })
	close(sender.let)
	s.eventually("both end", func() bool { _, running := s.Load(); return running == 0 })
	end()
	assert.Equal(t, sender.sent(first), 1, "the first one was sent … times")
}
