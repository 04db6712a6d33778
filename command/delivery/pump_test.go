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
		most := DefaultLimits.Opening
		crowded := 1 << 20
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
		if _, begun := d.lanes.size(); begun < looks || begun > most+looks {
			t.Errorf("%d were begun in %d looks at a crowd, want one each, and %d besides", begun, looks, most)
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

// A destination that has answered is connected to already: it goes on beside any crowd. One that hung up is not: its next
// request opens a connection again, as does the first.
func TestWhoIsConnectedGoesOnBesideACrowd(t *testing.T) {
	t.Parallel()
	ls := newLanes(DefaultLimits)
	answered, hungUp := numbered(1, 1<<8), numbered(1, 1<<9)
	const others, each = 1 << 7, 4
	add := func(to Job) {
		for range each {
			next := job(1, 0)
			next.Target.ID = to.Target.ID
			ls.add(next, false)
		}
	}
	for _, to := range []Job{answered, hungUp} {
		ls.add(to, false)
		started, _ := ls.next(nothing, calm)
		if to.ID == hungUp.ID {
			ls.sent(started, false, false)
		}
		ls.done(started, time.Millisecond)
	}
	for i := range others { // they don't answer, and are all connections that may be opened at one time
		add(numbered(1, i))
	}
	take(ls)
	add(answered)
	add(hungUp)
	for next, ok := ls.next(nothing, crowded); ok; next, ok = ls.next(nothing, crowded) {
		if next.Target.ID != answered.Target.ID {
			t.Error("one was begun that is not connected")
		}
	}
	if n := ls.lanes[answered.Target.ID].queue.len(); n > 0 {
		t.Errorf("%d still wait for one that is connected", n)
	}
	again, _ := ls.next(nothing, calm)
	ls.done(again, time.Millisecond)
	if !ls.lanes[again.Target.ID].connected {
		t.Error("one that kept its connection is taken for one that hung up")
	}
}

// That a destination is connected is remembered as long as its connection is there, however rarely something is sent to it.
func TestWhoWasConnectedIsConnectedForAWhile(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		connected := func(n int) bool {
			to := numbered(1, n)
			ls.add(to, false)
			started, _ := ls.next(nothing, calm)
			was := ls.lanes[to.Target.ID].connected
			ls.done(started, time.Millisecond)
			return was
		}
		for _, want := range []bool{false, true, true, true, true} {
			if connected(1) != want {
				t.Errorf("connected: %t", !want)
			}
			time.Sleep(keptFor * 9 / 10) //nolint:forbidigo // the clock of the test
		}
		time.Sleep(2 * keptFor) //nolint:forbidigo // the clock of the test
		if connected(1) {
			t.Error("it is taken for connected long after")
		}
		for i := range 2*keptMost + 1 {
			connected(2 + i)
		}
		if connected(1) {
			t.Error("it is taken for connected, although no more connections are kept than others have opened since")
		}
		if n := len(ls.kept.recent) + len(ls.kept.older); n > 2*keptMost {
			t.Errorf("%d are remembered", n)
		}
	})
}

// However many organizations there are, of which each has many destinations that are not connected: where it is crowded
// few connections are opened at one time, and those that hang before they are open don't count for long.
func TestOfManyOrganizationsFewOpenConnectionsInACrowd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		ls := newLanes(DefaultLimits)
		for organization := range 200 {
			for i := range 10 {
				ls.add(numbered(byte(organization), i), false)
			}
		}
		var last Job
		begin := func() (begun int) {
			for j, ok := ls.next(nothing, crowded); ok; j, ok = ls.next(nothing, crowded) {
				last = j
				begun++
			}
			return begun
		}
		if n := begin(); n == 0 || n > DefaultLimits.Opening {
			t.Errorf("%d were begun in a crowd, want %d", n, DefaultLimits.Opening)
		}
		if n := begin(); n > 0 {
			t.Errorf("%d more were begun", n)
		}
		if !ls.sent(last, true, false) {
			t.Error("one that opened a connection does not say so")
		}
		if n := begin(); n != 1 {
			t.Errorf("%d were begun after one was sent, whose outcome is yet to be recorded", n)
		}
		time.Sleep(2 * openingFor) //nolint:forbidigo // the clock of the test
		if n := begin(); n == 0 || n > DefaultLimits.Opening {
			t.Errorf("%d were begun after those that hang, want %d", n, DefaultLimits.Opening)
		}
	})
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
