package delivery

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/publication"
	"carillon/eventstore/nodetest"
)

// fewTurns are turns of which the first ones are granted, each for one request.
type fewTurns struct {
	granted, denied atomic.Int32
	most            int32
}

func (f *fewTurns) Take(_ context.Context, _ uuid.UUID, interval time.Duration) (time.Duration, error) {
	if interval == time.Second/5 && f.granted.Add(1) <= f.most {
		return 0, nil
	}
	f.denied.Add(1)
	return time.Hour, nil
}

// Of two processes that hold deliveries of a destination with a limit, each sends as many as it gets turns.
func TestDeliverersShareTheLimit(t *testing.T) {
	t.Parallel()
	const deliveries, most = 5, 3
	store, organization, to, url := nodetest.Start(t), uuid.New(), uuid.New(), "https://example.org/limited"
	makeDestination(t, store, to, organization, url)
	execute(t, store, destination.Aggregate, to, destination.Command(destination.Revise{
		Organization: organization,
		Sets:         destination.FieldLimit,
		Settings:     destination.Settings{Plain: destination.Plain{MaxRequestsPerSecond: 5}},
		At:           time.Now(),
	}))
	sender, turns := &noting{to: map[string]int{}, let: make(chan struct{})}, &fewTurns{most: most}
	for range 2 {
		d := &sending{t: t}
		queue := &claims{released: make(chan uuid.UUID, 2*deliveries)}
		queue.claim = func(n int) (jobs []Job) {
			for range deliveries * (2 - min(n, 2)) {
				jobs = append(jobs, Job{
					ID:           uuid.New(),
					Destination:  to,
					Organization: organization,
					LeasedUntil:  time.Now().Add(time.Hour),
					Body: &Body{Event: uuid.New(),
						Published: publication.Published{Type: "news.item.added", Data: []byte("{}")}},
				})
			}
			return jobs
		}
		d.Deliverer = deliverer(store, queue, sender)
		d.Turns = turns
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- d.Run(ctx) }()
		defer func() {
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}()
	}
	defer close(sender.let)
	s := &sending{t: t}
	s.eventually("both were denied", func() bool { return turns.denied.Load() == 2 })
	if sent := sender.sent(url); sent > most {
		t.Errorf("%d sent, want %d at most", sent, most)
	}
	s.eventually("what was granted is sent", func() bool { return sender.sent(url) == most })
}
