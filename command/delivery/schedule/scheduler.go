package schedule

import (
	"time"

	"github.com/google/uuid"
)

// Delivery is one that is to be sent, as a worker holds it. Its destination is read when it is sent.
type Delivery struct {
	ID, Destination, Organization uuid.UUID
	// Event is the event of its body. Deliveries of one event share it.
	Event   uuid.UUID
	Size    int  // bytes of its body
	Claimed bool // it comes from the read model
	// Limit is how many requests per second its destination takes; 0 means any number.
	Limit float64

	// The schedule does not look at the rest.

	Feed          uuid.UUID   // of its event; Nil means it has none
	Subscriptions []uuid.UUID // that it was made for. Empty means unknown.
	// Replay is the requested replay, if that is why it is sent: to a disabled destination too, without a subscription.
	Replay uuid.UUID
	// Attempts are those made so far, some of them by the retry schedule.
	Attempts, Automatic int
	Revision            int64     // of its stream, as the read model knows it; an old one only costs a read
	LeasedUntil         time.Time // by the queue's clock
	Losses              int       // of the worker's lock, before it was claimed or handed over
	QueuedAt            time.Time // in memory
	Body                any
}

// Outcome reports how a request ended.
type Outcome struct {
	Took    time.Duration // until the answer, or until it was given up; 0 means that nothing was sent
	Failed  bool          // the destination did not answer, or said that it can't
	Refused bool          // it asked to be left alone for a while; Rest was called
	Kept    bool          // the connection stays open for the next request
}

// entry is a delivery that waits here or is in flight, or that room is kept for.
type entry struct {
	*Delivery

	lane    *lane
	number  int // in the order of entering
	began   time.Time
	kept    bool // room is kept for it: it is about to be offered
	running bool
	ended   bool
	overdue bool // in flight for longer than SlowAfter
	opening bool // it counts as opening a connection
}

// Scheduler decides which delivery is sent next. It is not safe for concurrent use.
type Scheduler struct {
	settings Settings
	lanes    map[uuid.UUID]*lane
	orgs     map[uuid.UUID]*organization
	here     map[uuid.UUID]*entry // waiting, in flight, or about to be offered
	entered  int                  // numbers entries
	waiting  int
	pools    [resources]pool
	bodies   map[uuid.UUID]body // by event

	rounds    [classes]ring[*organization]
	stalled   [classes]bool // nothing of a class may start before something ends
	nextClass class
	idleLanes ring[*lane] // lanes with idle connections; the one first that was used least lately
	idle      int         // idle connections, of all lanes

	begun    []*entry // requests in the order in which they began, without those that are overdue
	opening  []*entry // requests that open a connection, in that order
	rests    map[uuid.UUID]*rest
	limited  map[*lane]struct{} // lanes with a limit
	restEnds time.Time          // when the next rest, pace or limit allows a request; zero means none holds back anything
	// Lanes that can start nothing before they get a slot.
	needsSlot []*lane
	returned  []*Delivery
	swept     time.Time
}

// New returns a scheduler of nothing.
func New(settings Settings) *Scheduler {
	s := &Scheduler{
		settings: settings,
		lanes:    map[uuid.UUID]*lane{},
		orgs:     map[uuid.UUID]*organization{},
		here:     map[uuid.UUID]*entry{},
		bodies:   map[uuid.UUID]body{},
		rests:    map[uuid.UUID]*rest{},
		limited:  map[*lane]struct{}{},
	}
	for r, size := range [resources]int{
		requests:     settings.InFlight,
		slowRequests: settings.InFlight / 2,
		openings:     settings.Opening,
		freshWaiting: settings.Queued,
		claimedHere:  settings.Queued / 4,
		memory:       settings.Bytes,
	} {
		s.pools[r].size = size
	}
	return s
}

// Load returns how many deliveries wait and how many requests are in flight.
func (s *Scheduler) Load() (waiting, inFlight int) { return s.waiting, s.pools[requests].used }

// Free returns how many more fresh and claimed deliveries there is room for. A body counts for each 2 KiB of it.
func (s *Scheduler) Free() (fresh, claimed int) {
	return min(s.pools[freshWaiting].free(), s.pools[memory].free()/SmallBody), s.pools[claimedHere].free()
}

// Has reports whether a delivery waits here, is in flight, or is about to be offered.
func (s *Scheduler) Has(id uuid.UUID) bool { return s.here[id] != nil }

// Admit keeps room for a fresh delivery until it is offered or withdrawn, and reports whether there is any. If there is
// none its lane is taken to have older deliveries in the read model from now on.
func (s *Scheduler) Admit(d *Delivery, now time.Time) bool {
	s.advance(now)
	l := s.laneOf(d, now)
	switch {
	case s.here[d.ID] != nil:
		return true
	case !l.takesFresh(now) || l.queue.len()+l.kept >= s.left(freshWaiting, l.org) || !s.fits(d, l):
		l.refusedFreshAt = now
		return false
	}
	s.enter(d, l).kept = true
	l.kept++
	return true
}

// Withdraw frees the room that is kept for a delivery, if it was not offered.
func (s *Scheduler) Withdraw(id uuid.UUID) {
	if e := s.here[id]; e != nil && e.kept {
		e.lane.kept--
		s.forget(e)
	}
}

// Offer takes a delivery, and reports whether there is room for it. A delivery that waits here already is updated.
func (s *Scheduler) Offer(d *Delivery, now time.Time) bool {
	s.advance(now)
	l, e := s.laneOf(d, now), s.here[d.ID]
	switch {
	case e != nil && e.running:
		return true
	case e != nil && !e.kept:
		s.letGo(e.Delivery, l)
		d.Claimed = e.Claimed
		e.Delivery = d
		s.hold(d, l)
		return true
	case !s.takes(d, l, e != nil, now):
		s.Withdraw(d.ID)
		l.refusedFreshAt = now
		return false
	case e == nil:
		e = s.enter(d, l)
	default:
		e.kept = false
		l.kept--
	}
	s.entered++
	e.number = s.entered
	l.queue.add(e)
	s.waiting++
	s.file(l, now)
	return true
}

// enter counts a delivery as here.
func (s *Scheduler) enter(d *Delivery, l *lane) *entry {
	e := &entry{Delivery: d, lane: l}
	s.here[d.ID] = e
	s.take(waitingIn(d.Claimed), l.org, 1)
	s.hold(d, l)
	return e
}

// takes reports whether a delivery may wait that was offered. Room has promised it to a claimed one, and Admit to one
// that it keeps room for.
func (s *Scheduler) takes(d *Delivery, l *lane, kept bool, now time.Time) bool {
	switch {
	case kept:
		return l.stillRoomy(now)
	case s.pools[waitingIn(d.Claimed)].free() == 0:
		return false
	case d.Claimed:
		return l.stillRoomy(now)
	}
	return l.takesFresh(now) && (d.bytes() == 0 || s.bytesInAll() > 0)
}

func waitingIn(claimed bool) resource {
	if claimed {
		return claimedHere
	}
	return freshWaiting
}

func (s *Scheduler) laneOf(d *Delivery, now time.Time) *lane {
	l := s.lanes[d.Destination]
	if l != nil {
		s.setLimit(l, d.Limit, now)
		return l
	}
	o := s.orgs[d.Organization]
	if o == nil {
		o = &organization{id: d.Organization}
		for c := range o.links {
			o.links[c].value = o
		}
		s.orgs[d.Organization] = o
	}
	o.lanes++
	l = &lane{
		id:     d.Destination,
		org:    o,
		window: startWindow,
		rest:   s.rests[d.Destination],
		filed:  noClass,
		used:   now,
	}
	l.links.value, l.amongIdle.value = l, l
	s.lanes[d.Destination] = l
	s.setLimit(l, d.Limit, now)
	return l
}

// Done ends a request, and reports whether a claim is worthwhile that was not before. A request that another schedule
// began is unknown.
func (s *Scheduler) Done(id uuid.UUID, o Outcome, now time.Time) (claim bool) {
	s.advance(now)
	e := s.here[id]
	if e == nil || !e.running {
		return false
	}
	l := e.lane
	e.ended = true
	l.running--
	s.count(l, -1)
	s.opened(e)
	if e.overdue {
		l.overdue--
	}
	s.forget(e)
	if o.Took > 0 {
		l.learn(e.began, o, s.settings, now)
	}
	if o.Kept {
		s.keep(l, now)
	}
	l.used = now
	e.Delivery = nil // the entry is looked at until it would have been overdue
	s.recount(l, now)
	s.stalled = [classes]bool{}
	s.file(l, now)
	return s.wanted(l, now)
}

// Drop returns the waiting deliveries of a destination. Those in flight go on.
func (s *Scheduler) Drop(destination uuid.UUID, now time.Time) []*Delivery {
	if l := s.lanes[destination]; l != nil {
		s.shorten(l, 0, now)
		l.late, l.refusedFreshAt = false, time.Time{}
		s.recount(l, now)
	}
	return s.takeReturned()
}

// DropAll returns the waiting deliveries of all destinations of an organization; of all organizations if it is Nil.
// Those in flight go on.
func (s *Scheduler) DropAll(organization uuid.UUID, now time.Time) []*Delivery {
	for _, l := range s.lanes {
		if organization == uuid.Nil || l.org.id == organization {
			s.shorten(l, 0, now)
		}
	}
	return s.takeReturned()
}

// Tick returns the deliveries that go back to the read model, and when something may start that waits; zero if that
// depends on calls alone.
func (s *Scheduler) Tick(now time.Time) (returned []*Delivery, next time.Time) {
	s.advance(now)
	if s.waiting > 0 {
		next = s.restEnds
		if len(s.opening) > 0 {
			next = sooner(next, s.opening[0].began.Add(openingFor))
		}
		if len(s.begun) > 0 {
			next = sooner(next, s.begun[0].began.Add(s.settings.SlowAfter+1))
		}
	}
	return s.takeReturned(), next
}

func (s *Scheduler) takeReturned() (returned []*Delivery) {
	returned, s.returned = s.returned, nil
	return returned
}

// shorten returns the newest deliveries of a lane, so that no more than most wait.
func (s *Scheduler) shorten(l *lane, most int, now time.Time) {
	if l.queue.len() <= most {
		return
	}
	l.queue.shorten(most, func(e *entry) {
		s.waiting--
		s.returned = append(s.returned, e.Delivery)
		s.forget(e)
	})
	l.refusedFreshAt = now
	s.file(l, now)
}

// forget drops an entry that waited or was in flight.
func (s *Scheduler) forget(e *entry) {
	delete(s.here, e.ID)
	s.letGo(e.Delivery, e.lane)
	if !e.running || e.Claimed {
		s.take(waitingIn(e.Claimed), e.lane.org, -1)
	}
}
