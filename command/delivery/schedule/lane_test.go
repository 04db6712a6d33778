package schedule_test

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// lane offers deliveries to one destination, and starts all that may start.
type lane struct {
	*schedule.Scheduler

	t   *testing.T
	now time.Time
	n   int
}

func newLane(t *testing.T) *lane {
	t.Helper()
	return &lane{Scheduler: schedule.New(settings), t: t, now: epoch}
}

func (l *lane) offer(n int, claimed bool) (taken int) {
	for range n {
		l.n++
		d := &schedule.Delivery{
			ID:           id(0, l.n),
			Destination:  id(1, 1),
			Organization: id(1, -1),
			Claimed:      claimed,
		}
		if (claimed || l.Admit(d, l.now)) && l.Offer(d, l.now) {
			taken++
		}
	}
	return taken
}

// start starts all that may, connections included.
func (l *lane) start() (started []*schedule.Delivery) {
	for {
		d := l.Next(l.now)
		if d == nil {
			_, next := l.Tick(l.now)
			if next.IsZero() || next.Sub(l.now) > time.Second {
				return started
			}
			l.now = next
			continue
		}
		started = append(started, d)
	}
}

func (l *lane) done(started []*schedule.Delivery, o schedule.Outcome) {
	l.now = l.now.Add(o.Took)
	for _, d := range started {
		l.Done(d.ID, o, l.now)
	}
}

// The window grows by answers and is halved by failures, once for requests in flight together.
func TestLane_window(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.offer(200, true)
	for _, want := range []int{4, 8, 16, 32, 64} {
		started := l.start()
		assert.Equal(t, len(started), want, "at one time")
		l.done(started, schedule.Outcome{Took: 10 * time.Millisecond, Kept: true})
	}
	for _, want := range []int{64, 32, 16, 8, 4, 2, 1, 1} {
		l.offer(want, true)
		started := l.start()
		assert.Equal(t, len(started), want, "at one time after failures")
		l.done(started, schedule.Outcome{Took: 10 * time.Millisecond, Failed: true, Kept: true})
	}
}

// A lane is slow as soon as a request is late: its waiting deliveries return, no fresh one is taken, and few are in
// flight until an answer comes in time.
func TestLane_slow(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.offer(50, false)
	first := l.start()
	l.done(first[:1], schedule.Outcome{Took: 10 * time.Millisecond, Kept: true})
	l.start()
	if _, next := l.Tick(l.now.Add(time.Second)); !next.Equal(epoch.Add(settings.SlowAfter + 1)) {
		t.Errorf("looked at again at %s, want when the first is late", next)
	}
	l.now = l.now.Add(settings.SlowAfter + time.Second)
	returned, _ := l.Tick(l.now)
	assert.True(t, len(returned) >= 40, "%d waiting deliveries returned", len(returned))
	assert.Equal(t, l.offer(1, false), 0, "a fresh delivery found room")
	room, _ := l.Room(l.now)
	assert.Slices(t, room.Full, []uuid.UUID{id(1, 1)}, "full")
	// They began to be late then: their answers count.
	l.done(first[1:], schedule.Outcome{Took: time.Second, Kept: true})
	if room, _ := l.Room(l.now); len(room.Full) > 0 {
		t.Errorf("full: %v, want none after answers", room.Full)
	}
	l.offer(1, false)
	l.done(l.start(), schedule.Outcome{Took: settings.SlowAfter + time.Second, Kept: true})
	if l.offer(1, true); len(l.start()) != 1 {
		t.Error("what answers late gets nothing any more")
	}
}

// Thousands of replays do not delay new events, and take no room from them.
func TestLane_freshAndClaimedTakeTurns(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.offer(500, true)
	must.Equal(t, l.offer(20, false), 20, "a backfill left no room for new events")
	fresh, begun := 0, 0
	for fresh < 20 && begun < 60 {
		started := l.start()
		begun += len(started)
		for _, d := range started {
			if !d.Claimed {
				fresh++
			}
		}
		l.done(started, schedule.Outcome{Took: time.Millisecond, Kept: true})
	}
	assert.True(t, fresh >= 20, "%d of 20 fresh ones were among %d that were sent", fresh, begun)
}

// After a lane refused a fresh delivery older ones wait in the read model: fresh ones only keep it from running
// dry, until a claim finds no more.
func TestLane_olderFirstAfterSpill(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	full := l.offer(1000, false)
	must.True(t, full != 1000 && full >= 256, "%d had room", full)
	for {
		started := l.start()
		if len(started) == 0 {
			break
		}
		l.done(started, schedule.Outcome{Took: 10 * time.Millisecond, Kept: true})
	}
	l.now = l.now.Add(2 * time.Second)
	least := l.offer(3000, false)
	l.start()
	for _, d := range l.Drop(id(1, 2), l.now) {
		t.Error(d.ID)
	}
	l.now = l.now.Add(2 * time.Second)
	room, _ := l.Room(l.now)
	l.Claimed(room, nil, time.Second, l.now)
	more := l.offer(3000, false)
	assert.True(t, more > least, "%d had room while older ones waited, %d after a claim found none", least, more)
}

// A delivery that is claimed twice, as after a claim that was forgotten, is sent once, as it was known last.
func TestScheduler_claimedTwice(t *testing.T) {
	t.Parallel()
	s := schedule.New(settings)
	d := &schedule.Delivery{
		ID:          id(0, 1),
		Destination: id(1, 1),
		Claimed:     true,
		Body:        "first",
	}
	s.Offer(d, epoch)
	again := *d
	again.Body = "second"
	s.Offer(&again, epoch)
	if started := s.Next(epoch); started.Body != "second" {
		t.Errorf("%v was sent", started.Body)
	}
	s.Offer(d, epoch)
	assert.True(t, s.Next(epoch) == nil, "it is sent twice")
	s.Done(d.ID, schedule.Outcome{}, epoch)
	waiting, inFlight := s.Load()
	assert.True(t, waiting+inFlight <= 0, "%d wait, %d are in flight in the end", waiting, inFlight)
}
