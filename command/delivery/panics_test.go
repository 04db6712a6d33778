package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command/webhook"
	"carillon/eventstore/nodetest"
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
			jobFor := func(url string) Job {
				id := uuid.New()
				makeDestination(t, store, id, organization, url)
				return Job{
					ID:           uuid.New(),
					Destination:  id,
					Organization: organization,
					LeasedUntil:  time.Now().Add(time.Hour),
					Body: &Body{Event: uuid.New(),
						Published: publication.Published{Type: "news.item.added", Data: []byte("{}")}},
				}
			}
			first, second := jobFor(bad), jobFor(good)
			queue := &claims{released: make(chan uuid.UUID, 10)}
			queue.claim = func(n int) []Job {
				switch {
				case n == 1 && place == "claim":
					panic("planted")
				case n == 1 && place == "schedule":
					return []Job{{ID: uuid.New()}} // without a body
				case n == 1:
					return []Job{first}
				case n == 2:
					return []Job{second}
				}
				return nil
			}
			sender := panicking{&noting{to: map[string]int{}, let: make(chan struct{})}, bad}
			s := &sending{t: t, Deliverer: deliverer(store, queue, sender)}
			ctx, cancel := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() { ended <- s.Run(ctx) }()
			s.eventually("the next one is sent", func() bool {
				s.Wake()
				return sender.sent(good) == 1
			})
			if place == "attempt" && (!s.known(first.ID) || len(queue.released) > 0) {
				t.Error("the lease of the delivery that panics is given up")
			}
			close(sender.let)
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}
