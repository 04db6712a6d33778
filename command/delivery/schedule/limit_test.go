package schedule_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/command/delivery/schedule"
)

// throttled is a destination with a limit, and the processes that send to it.
type throttled struct {
	mu        sync.Mutex
	perSecond float64   // 0 means none
	next      time.Time // when the next slot begins, for all processes
	slots     int       // that were asked for
	got       []time.Time
	returned  int
}

// slotTakes is the time that a slot takes to be got, and that its answer takes.
const slotTakes = time.Millisecond

func (l *throttled) offer(s *schedule.Scheduler, deliveries, of int) {
	l.mu.Lock()
	for n := range deliveries {
		d := &schedule.Delivery{
			ID:           id(of, n),
			Destination:  id(1, 1),
			Organization: id(1, -1),
			Limit:        l.perSecond,
		}
		if !s.Offer(d, time.Now()) {
			l.returned++
		}
	}
	l.mu.Unlock()
	l.pump(s)
}

func (l *throttled) pump(s *schedule.Scheduler) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for d := s.Next(time.Now()); d != nil; d = s.Next(time.Now()) {
		l.got = append(l.got, time.Now())
		time.AfterFunc(answerTakes, func() { l.end(s, d, schedule.Outcome{Took: answerTakes, Kept: true}) })
	}
	returned, next := s.Tick(time.Now())
	l.returned += len(returned)
	if !next.IsZero() {
		time.AfterFunc(time.Until(next), func() { l.pump(s) })
	}
	for _, slot := range s.Slots() {
		l.slots++
		time.AfterFunc(slotTakes, func() { l.take(s, slot) })
	}
}

// take gets a slot as from Postgres: when no other process has it.
func (l *throttled) take(s *schedule.Scheduler, slot schedule.Slot) {
	l.mu.Lock()
	now := time.Now()
	wait := l.next.Sub(now)
	if wait <= 0 {
		l.next = now.Add(slot.Interval)
	}
	l.mu.Unlock()
	time.Sleep(slotTakes) //nolint:forbidigo // the clock of the test
	l.mu.Lock()
	s.Answer(slot, max(wait, 0), time.Now())
	l.mu.Unlock()
	l.pump(s)
}

func (l *throttled) end(s *schedule.Scheduler, d *schedule.Delivery, o schedule.Outcome) {
	l.mu.Lock()
	s.Done(d.ID, o, time.Now())
	l.mu.Unlock()
	l.pump(s)
}

// pass lets time pass, and all that falls due in it come to its end: what is read after it has no other writer.
func pass(d time.Duration) {
	time.Sleep(d) //nolint:forbidigo // the clock of the test
	synctest.Wait()
}

// mostIn returns the most requests within any span of a length.
func (l *throttled) mostIn(span time.Duration) (most int) {
	for i, from := range l.got {
		end, _ := slices.BinarySearchFunc(l.got, from.Add(span), time.Time.Compare)
		most = max(most, end-i)
	}
	return most
}

// Two processes together send no more than a destination takes, and not much less.
func TestLimitHoldsAcrossSchedulers(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		perSecond  float64
		deliveries int // of each of two processes
		most       int // in a second
		within     time.Duration
	}{
		{
			perSecond:  5,
			deliveries: 20,
			most:       5,
			within:     8500 * time.Millisecond,
		},
		{
			perSecond:  200,
			deliveries: 200,
			most:       220,
			within:     2400 * time.Millisecond,
		},
		{
			perSecond:  0.5,
			deliveries: 2,
			most:       1,
			within:     7 * time.Second,
		},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &throttled{perSecond: c.perSecond}
			began := time.Now()
			for n := range 2 {
				l.offer(schedule.New(settings), c.deliveries, n)
			}
			pass(c.within)
			if len(l.got) != 2*c.deliveries || l.returned > 0 {
				t.Fatalf("%g/s: %d of %d got within %s, %d returned", c.perSecond, len(l.got), 2*c.deliveries, c.within,
					l.returned)
			}
			t.Logf("%g/s: %d in %s, %d slots", c.perSecond, len(l.got), l.got[len(l.got)-1].Sub(began), l.slots)
			if most := l.mostIn(time.Second - 10*slotTakes); most > c.most {
				t.Errorf("%g/s: %d requests in a second, want %d at most", c.perSecond, most, c.most)
			}
		})
	}
}

// A destination without a limit never asks for a slot.
func TestNoLimitNeedsNoSlot(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l := &throttled{}
		l.offer(schedule.New(settings), 100, 0)
		pass(time.Second)
		if len(l.got) != 100 || l.slots > 0 {
			t.Errorf("%d of 100 sent with %d slots, want none", len(l.got), l.slots)
		}
	})
}

// A limit that is removed holds back nothing, and Retry-After holds behind a limit.
func TestLimitChangesAndRests(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		l, s := &throttled{perSecond: 0.1}, schedule.New(settings)
		l.offer(s, 1, 0)
		pass(time.Second)
		l.mu.Lock()
		now := time.Now()
		s.Rest(id(1, 1), now.Add(13*time.Second), now)
		l.mu.Unlock()
		l.offer(s, 1, 1)
		pass(12 * time.Second)
		if len(l.got) != 1 {
			t.Errorf("%d got, want one before the rest", len(l.got))
		}
		l.mu.Lock()
		l.perSecond = 0
		s.Changed(id(1, 1), 0, time.Now())
		l.mu.Unlock()
		l.offer(s, 3, 2)
		pass(time.Second)
		if len(l.got) != 5 {
			t.Errorf("%d got, want all 5 without a limit", len(l.got))
		}
	})
}
