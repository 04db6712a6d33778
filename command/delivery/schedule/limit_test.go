package schedule_test

import (
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
		{5, 20, 5, 8500 * time.Millisecond},
		{200, 200, 220, 2400 * time.Millisecond},
		{0.5, 2, 1, 7 * time.Second},
	} {
		synctest.Test(t, func(t *testing.T) {
			l := &throttled{perSecond: c.perSecond}
			began := time.Now()
			for n := range 2 {
				l.offer(schedule.New(settings), c.deliveries, n)
			}
			pass(c.within)
			must.True(t, len(l.got) == 2*c.deliveries && l.returned <= 0,
				"%g/s: %d of %d got within %s, %d returned", c.perSecond, len(l.got), 2*c.deliveries, c.within, l.returned)
			t.Logf("%g/s: %d in %s, %d slots", c.perSecond, len(l.got), l.got[len(l.got)-1].Sub(began), l.slots)
			most := l.mostIn(time.Second - 10*slotTakes)
			assert.True(t, most <= c.most, "%g/s: %d requests in a second, want %d at most", c.perSecond, most, c.most)
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
		assert.True(t, len(l.got) == 100 && l.slots <= 0, "%d of 100 sent with %d slots, want none", len(l.got), l.slots)
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
		assert.Equal(t, len(l.got), 1, "got, want one before the rest")
		l.mu.Lock()
		l.perSecond = 0
		s.Changed(id(1, 1), 0, time.Now())
		l.mu.Unlock()
		l.offer(s, 3, 2)
		pass(time.Second)
		assert.Equal(t, len(l.got), 5, "got, want all 5 without a limit")
	})
}

const half = 500_000 // as large as an event of half a megabyte is

// number makes ids of deliveries and events.
var number = func() func() uuid.UUID {
	n := 0
	return func() uuid.UUID { n++; return id(1<<20, n) }
}

// offered offers fresh deliveries of one event to some of an organization's destinations, and returns how many were
// taken.
func offered(s *schedule.Scheduler, next func() uuid.UUID, organization, destinations, size int) (taken int) {
	event := next()
	for n := range destinations {
		d := &schedule.Delivery{
			ID:           next(),
			Destination:  id(organization, n),
			Organization: id(organization, -1),
			Event:        event,
			Size:         size,
		}
		if s.Admit(d, epoch) && s.Offer(d, epoch) {
			taken++
		}
	}
	return taken
}

// An organization with large events uses up to two thirds of the memory, each event counted once, and holds back
// neither another one's large events nor small ones of any, its own included.
func TestMemory_isShared(t *testing.T) {
	t.Parallel()
	s, next, events := schedule.New(settings), number(), 0
	for offered(s, next, 1, 20, half) > 0 {
		events++
	}
	if used := events * half; used < settings.Bytes/3 || used > settings.Bytes*2/3 || s.Bytes() != used {
		t.Errorf("%d events take %d of %d bytes, and %d are counted", events, used, settings.Bytes, s.Bytes())
	}
	if r, _ := s.Room(epoch); slices.Contains(r.Over, id(2, -1)) || r.Bytes < schedule.LargestBody {
		t.Errorf("a claim may take %d bytes, and nothing of %v", r.Bytes, r.Over)
	}
	assert.True(t, offered(s, next, 1, 1, schedule.SmallBody) == 1 && offered(s, next, 2, 1, schedule.SmallBody) == 1,
		"a small event finds no room")
	theirs := 0
	for offered(s, next, 2, 2, half) > 0 {
		theirs++
	}
	assert.True(t, theirs >= events/4, "another organization has room for %d events, the first for %d", theirs, events)
}

// However much others have, an organization gets one large body through, up to a bound of all.
func TestMemory_largeBodyBesideMany(t *testing.T) {
	t.Parallel()
	s, next, got := schedule.New(settings), number(), 0
	for organization := range 100 {
		for n := 0; offered(s, next, organization, 1, half) > 0; n++ {
			if n == 0 {
				got++
			}
			if s.Bytes() > 2*settings.Bytes {
				t.Fatalf("%d bytes are used of %d", s.Bytes(), settings.Bytes)
			}
		}
	}
	assert.True(t, got >= 40, "%d of 100 organizations had room for one event", got)
	assert.Equal(t, offered(s, next, 200, 1, schedule.SmallBody), 1, "a small event finds no room")
}

// Fresh deliveries leave claims their room, and claims of one organization leave room for others.
func TestRoom_ofItsOwn(t *testing.T) {
	t.Parallel()
	s, next := schedule.New(settings), number()
	for range 200 {
		offered(s, next, 1, 600, 0)
	}
	if queued, _ := s.Load(); queued < settings.Queued/2 || queued > settings.Queued {
		t.Errorf("%d fresh ones wait, of %d", queued, settings.Queued)
	}
	first, _ := s.Room(epoch)
	must.True(t, first.Limit != 0 && len(first.Over) == 0,
		"a claim may take %d, and nothing for %v", first.Limit, first.Over)
	for claims := 0; ; claims++ {
		r, _ := s.Room(epoch)
		if len(r.Over) > 0 {
			assert.True(t, r.Limit >= first.Limit && slices.Equal(r.Over, []uuid.UUID{id(2, -1)}),
				"a claim may take %d, and nothing for %v", r.Limit, r.Over)
			return
		}
		must.True(t, claims <= 100 && r.Limit != 0, "after %d claims the next may take %d", claims, r.Limit)
		for range r.Limit {
			d := &schedule.Delivery{ID: next(), Organization: id(2, -1), Claimed: true}
			d.Destination = d.ID
			s.Offer(d, epoch)
		}
	}
}

// A lane that a claim passed by asks for another one as soon as it has room.
func TestRoom_fullLaneAsksAgain(t *testing.T) {
	t.Parallel()
	l := newLane(t)
	l.offer(256, true)
	r, _ := l.Room(l.now)
	must.True(t, slices.Equal(r.Full, []uuid.UUID{id(1, 1)}), "full: %v, want the lane", r.Full)
	asks := 0
	for started := l.start(); len(started) > 0; started = l.start() {
		for _, d := range started {
			if l.Done(d.ID, schedule.Outcome{Took: time.Millisecond, Kept: true}, l.now) {
				asks++
			}
		}
	}
	assert.Equal(t, asks, 1, "it asked … times")
}
