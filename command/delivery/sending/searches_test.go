package sending

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/delivery/schedule"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
)

// looking counts its claims, and knows when the next delivery is due.
type looking struct {
	*claims

	mu   sync.Mutex
	n    int
	next time.Time
}

func (q *looking) Claim(context.Context, schedule.Room, time.Duration) ([]*schedule.Delivery, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	q.n++
	return nil, nil
}

func (q *looking) NextDue() (at time.Time, planned bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next, q.next.After(time.Now())
}

func (q *looking) looks() int {
	q.mu.Lock()
	defer q.mu.Unlock()
	defer func() { q.n = 0 }()
	return q.n
}

// Ten deliverers search in turn: together they look as often as one, whether they are notified that something is due
// now or later, or the last look saw when the next is due. If something may have been missed, all look.
func TestDeliverers_searchInTurn(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const workers = 10
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		queues, all := make([]*looking, workers), make([]*Deliverer, workers)
		for i := range workers {
			queues[i] = &looking{claims: &claims{}}
			all[i] = deliverer(nil, queues[i], nil)
			all[i].Searches = func(begins time.Time) bool {
				return int(begins.UnixNano()/int64(DefaultSearchEvery))%workers == i
			}
			all[i].init()
			go all[i].claimLoop(ctx)
		}
		looks := func(after time.Duration) (n int) {
			t.Helper()
			time.Sleep(after)
			synctest.Wait()
			for _, q := range queues {
				n += q.looks()
			}
			return n
		}
		time.Sleep(time.Until(time.Now().Truncate(DefaultSearchEvery).Add(DefaultSearchEvery + 10*time.Millisecond)))
		looks(0)
		assert.Equal(t, looks(20*DefaultSearchEvery), 20, "looks in 20 searches")
		announce := func(at time.Time) {
			for _, d := range all {
				d.Due(at)
			}
		}
		announce(time.Now())
		assert.Equal(t, looks(0), 1, "looks for a delivery due now")
		announce(time.Now().Add(50 * time.Millisecond))
		if early, n := looks(49*time.Millisecond), looks(time.Millisecond); early != 0 || n != 1 {
			t.Errorf("%d looks before a time, %d then, want 1", early, n)
		}
		for _, q := range queues {
			q.mu.Lock()
			q.next = time.Now().Add(100 * time.Millisecond)
			q.mu.Unlock()
		}
		announce(time.Now())
		assert.Equal(t, looks(100*time.Millisecond), 2, "looks, want one, and one when the next is due")
		announce(time.Time{})
		assert.Equal(t, looks(0), workers, "look after they may have missed something")
	})
}

// fewSlots are slots of which the first ones are granted, each for one request.
type fewSlots struct {
	granted, denied atomic.Int32
	most            int32
	name            string
}

func (f *fewSlots) Take(_ context.Context, name string, interval time.Duration) (time.Duration, bool, error) {
	if name == f.name && interval == time.Second/5 && f.granted.Add(1) <= f.most {
		return 0, false, nil
	}
	f.denied.Add(1)
	return time.Hour, false, nil
}

// Of two processes that hold deliveries of a destination with a limit, each sends as many as it gets slots.
func TestDeliverersShareTheLimit(t *testing.T) {
	t.Parallel()
	const deliveries, most = 5, 3
	store, organization, to, url := nodetest.Start(t), uuid.New(), uuid.New(), "https://example.org/limited"
	makeDestination(t, store, to, organization, url)
	sender := &noting{to: map[string]int{}, let: make(chan struct{})}
	slots := &fewSlots{most: most, name: "destination/" + to.String()}
	for range 2 {
		d := &sending{t: t}
		queue := &claims{released: make(chan uuid.UUID, 2*deliveries)}
		queue.claim = func(n int) (claimed []*schedule.Delivery) {
			for range deliveries * (2 - min(n, 2)) {
				one := claimedOf(organization, to)
				claimed = append(claimed, &one)
			}
			return claimed
		}
		d.Deliverer = deliverer(store, queue, sender)
		d.Slots = slots
		d.Facts.Standing = func(context.Context) ([]uuid.UUID, map[uuid.UUID]float64, error) {
			return nil, map[uuid.UUID]float64{to: 5}, nil
		}
		follow(t, d.Deliverer)
		end := d.begin()
		defer end()
	}
	defer close(sender.let)
	s := &sending{t: t}
	s.eventually("both were denied", func() bool { return slots.denied.Load() == 2 })
	sent := sender.sent(url)
	assert.True(t, sent <= most, "%d sent, want %d at most", sent, most)
	s.eventually("what was granted is sent", func() bool { return sender.sent(url) == most })
}

// A limit that is set while deliveries wait leaves as many as are sent before their leases end.
func TestLimitSetWhileDeliveriesWait(t *testing.T) {
	t.Parallel()
	store := nodetest.Start(t)
	makeDestination(t, store, hook, alice, "https://example.org")
	s := &sending{t: t, Deliverer: deliverer(store, &claims{}, &noting{})}
	follow(t, s.Deliverer)
	s.init()
	s.heard()
	var waiting []*schedule.Delivery
	for range 20 {
		one := claimedOf(alice, hook)
		waiting = append(waiting, &one)
	}
	s.take(roomOf(s.Deliverer), waiting)
	if n, _ := s.Load(); n != 20 {
		t.Fatalf("%d wait without a limit, want 20", n)
	}
	execute(t, store, destination.Aggregate, hook)(destination.Revise{
		Organization: alice,
		Sets:         destination.FieldLimit,
		Settings:     destination.Settings{Plain: destination.Plain{MaxRequestsPerSecond: 1}},
		At:           time.Now(),
	})
	s.eventually("the others go back", func() bool { n, _ := s.Load(); return n == 8 })
}
