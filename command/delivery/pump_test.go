package delivery

import (
	"context"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"
)

// unsure is a queue that can't say whether jobs are this worker's: what was begun waits for that.
type unsure struct{ Queue }

func (unsure) Holding() (losses int, sure bool) { return 0, false }

// While many wait for a processor, what is due waits in its lane, where organizations take turns, and not in that crowd.
// Something is begun all the same, and everything as soon as the crowd is gone.
func TestACrowdIsJoinedByFew(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const destinations, looks = 1000, 20
		crowded := crowd
		d := &Deliverer{
			Queue: unsure{}, Policy: DefaultPolicy, Limits: DefaultLimits, Log: slog.New(slog.DiscardHandler), Now: time.Now,
			Waiting: func() int { return crowded },
		}
		d.init()
		d.suspended.set(nil)
		ctx, cancel := context.WithCancel(t.Context())
		d.ctx = ctx
		for i := range destinations {
			d.lanes.add(numbered(1, i), false)
		}
		neighbour := numbered(2, 1)
		d.lanes.add(neighbour, false)
		d.pump()
		for range looks {
			time.Sleep(crowdPause) //nolint:forbidigo // the clock of the test
			synctest.Wait()
		}
		if _, begun := d.lanes.size(); begun <= maxCold || begun > maxCold+looks {
			t.Errorf("%d were begun in %d looks at a crowd, want one each beyond %d", begun, looks, maxCold)
		}
		if _, begun := d.lanes.lanes[neighbour.Target.ID].running[neighbour.ID]; !begun {
			t.Error("another organization's did not have its turn")
		}
		d.mu.Lock()
		crowded = 0
		d.mu.Unlock()
		d.pump()
		if queued, _ := d.lanes.size(); queued > 0 {
			t.Errorf("%d still wait, although nobody else does", queued)
		}
		cancel()
		d.running.Wait()
	})
}

// A destination that has answered is connected to already: it goes on beside any crowd.
func TestWhoHasAnsweredGoesOnBesideACrowd(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	for range 3 {
		ls.add(numbered(1, maxCold), false)
	}
	answered, _ := ls.next(nothing, true)
	for i := range maxCold {
		ls.add(numbered(1, i), false)
	}
	take(ls)
	for range 3 {
		ls.add(numbered(1, maxCold), false)
		ls.add(numbered(1, maxCold+1), false)
	}
	ls.done(answered, time.Millisecond)
	for next, ok := ls.next(nothing, true); ok; next, ok = ls.next(nothing, true) {
		if next.Target.ID != answered.Target.ID {
			t.Error("one was begun that had not answered")
		}
	}
	if n := len(ls.lanes[answered.Target.ID].queue); n > 0 {
		t.Errorf("%d still wait for one that has answered", n)
	}
}

// Requests that have ended are looked at in the order in which they began, behind one that is under way: their bodies,
// which may be large, are let go of at once.
func TestABodyIsLetGoOfWithItsRequest(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	ls.add(numbered(1, 1), false) // it does not answer
	for i := range 10 {
		j := numbered(1, 2+i)
		j.Body = &Body{}
		ls.add(j, false)
	}
	answers(ls, take(ls)[1:], time.Millisecond)
	for _, begun := range ls.begun {
		if begun.Body != nil {
			t.Error("a body is kept of a request that has ended")
		}
	}
}
