package sending

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/delivery/schedule"
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
		if n := looks(20 * DefaultSearchEvery); n != 20 {
			t.Errorf("%d looks in 20 searches", n)
		}
		announce := func(at time.Time) {
			for _, d := range all {
				d.Due(at)
			}
		}
		announce(time.Now())
		if n := looks(0); n != 1 {
			t.Errorf("%d looks for a delivery due now, want 1", n)
		}
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
		if n := looks(100 * time.Millisecond); n != 2 {
			t.Errorf("%d looks, want one, and one when the next is due", n)
		}
		announce(time.Time{})
		if n := looks(0); n != workers {
			t.Errorf("%d look after they may have missed something, want all", n)
		}
	})
}
