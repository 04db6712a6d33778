package schedule_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
)

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
	if offered(s, next, 1, 1, schedule.SmallBody) != 1 || offered(s, next, 2, 1, schedule.SmallBody) != 1 {
		t.Error("a small event finds no room")
	}
	theirs := 0
	for offered(s, next, 2, 2, half) > 0 {
		theirs++
	}
	if theirs < events/4 {
		t.Errorf("another organization has room for %d events, the first for %d", theirs, events)
	}
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
	if got < 40 {
		t.Errorf("%d of 100 organizations had room for one event", got)
	}
	if offered(s, next, 200, 1, schedule.SmallBody) != 1 {
		t.Error("a small event finds no room")
	}
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
	if first.Limit == 0 || len(first.Over) != 0 {
		t.Fatalf("a claim may take %d, and nothing for %v", first.Limit, first.Over)
	}
	for claims := 0; ; claims++ {
		r, _ := s.Room(epoch)
		if len(r.Over) > 0 {
			if r.Limit < first.Limit || !slices.Equal(r.Over, []uuid.UUID{id(2, -1)}) {
				t.Errorf("a claim may take %d, and nothing for %v", r.Limit, r.Over)
			}
			return
		}
		if claims > 100 || r.Limit == 0 {
			t.Fatalf("after %d claims the next may take %d", claims, r.Limit)
		}
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
	if r, _ := l.Room(l.now); !slices.Equal(r.Full, []uuid.UUID{id(1, 1)}) {
		t.Fatalf("full: %v, want the lane", r.Full)
	}
	asks := 0
	for started := l.start(); len(started) > 0; started = l.start() {
		for _, d := range started {
			if l.Done(d.ID, schedule.Outcome{Took: time.Millisecond, Kept: true}, l.now) {
				asks++
			}
		}
	}
	if asks != 1 {
		t.Errorf("it asked %d times", asks)
	}
}
