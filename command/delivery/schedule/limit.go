package schedule

import (
	"time"

	"github.com/google/uuid"
)

const (
	limitBlock   = 100 * time.Millisecond // of requests that are asked for at once
	limitExpires = time.Second            // after which requests of a slot that were not begun are void
)

// limit is the most that a destination takes, by all processes together: requests are begun in slots, which the caller
// gets for the lane.
type limit struct {
	perSecond float64
	left      int       // requests that the current slot allows
	next      time.Time // when the next request may begin, or the next slot may be asked for
	pending   bool      // a slot was asked for
}

// Slot asks that a number of requests to a destination may begin within an interval.
type Slot struct {
	Destination uuid.UUID
	Requests    int
	Interval    time.Duration
}

// gap is the time between two requests.
func (m *limit) gap() time.Duration { return time.Duration(float64(time.Second) / m.perSecond) }

// room returns how many deliveries may wait in memory.
func (m *limit) room() int { return max(1, int(laneQueueTime.Seconds()*m.perSecond)) }

// allows reports whether a request may begin. No limit allows all.
func (m *limit) allows(now time.Time) bool {
	return m == nil || m.left > 0 && !now.Before(m.next) && now.Sub(m.next) < limitExpires
}

// begin takes in that a request begins.
func (m *limit) begin() {
	m.left--
	m.next = m.next.Add(m.gap())
}

// Slots returns the slots that are needed now. Each is answered by Answer.
func (s *Scheduler) Slots() (slots []Slot) {
	for _, l := range s.needsSlot {
		if l.limit == nil || l.queue.len() == 0 {
			continue
		}
		n := max(1, min(l.queue.len(), int(limitBlock.Seconds()*l.limit.perSecond)))
		slots = append(slots, Slot{
			Destination: l.id,
			Requests:    n,
			Interval:    time.Duration(n) * l.limit.gap(),
		})
	}
	clear(s.needsSlot)
	s.needsSlot = s.needsSlot[:0]
	return slots
}

// Answer lets the requests of a slot begin, or the slot be asked for again after a wait.
func (s *Scheduler) Answer(t Slot, wait time.Duration, now time.Time) {
	l := s.lanes[t.Destination]
	if l == nil || l.limit == nil {
		return
	}
	l.limit.pending, l.limit.left, l.limit.next = false, 0, now.Add(wait)
	if wait <= 0 {
		l.limit.left = t.Requests
	}
	s.file(l, now)
}

// awaitSlot notes that a lane needs a slot, or when its limit allows the next request.
func (s *Scheduler) awaitSlot(l *lane, now time.Time) {
	m := l.limit
	switch {
	case m.next.After(now):
		s.restEnds = sooner(s.restEnds, m.next)
	case !m.pending && !m.allows(now) && l.running < l.maxRunning() && !l.paced(now):
		m.pending, m.left = true, 0
		s.needsSlot = append(s.needsSlot, l)
	}
}

// setLimit sets the limit of a lane; 0 means none.
func (s *Scheduler) setLimit(l *lane, perSecond float64, now time.Time) {
	switch {
	case perSecond == 0 && l.limit == nil, l.limit != nil && l.limit.perSecond == perSecond:
		return
	case perSecond == 0:
		l.limit = nil
		delete(s.limited, l)
	case l.limit == nil:
		l.limit = &limit{perSecond: perSecond, next: now}
		s.limited[l] = struct{}{}
	default:
		*l.limit = limit{perSecond: perSecond, next: now, pending: l.limit.pending}
	}
	s.shorten(l, l.maxWaiting(now), now)
	s.file(l, now)
}

// burstFactor is how many times what is free an organization may use. The last part of reservedFraction is for
// organizations that use nothing, and of requests the last part of connectedFraction for connected lanes: others
// may hang.
const (
	burstFactor       = 2
	reservedFraction  = 16
	connectedFraction = 32
)

// resource is a limited capacity.
type resource int

const (
	requests resource = iota
	slowRequests
	openings
	freshWaiting
	claimedHere
	memory
	resources
)

// pool is how much there is of a resource, and how much is used.
type pool struct{ size, used int }

func (p pool) free() int { return max(0, p.size-p.used) }

// organization has the use of the pools by one organization, and its lanes that may start a request, by class.
type organization struct {
	id    uuid.UUID
	used  [resources]int
	ready [classes]ring[*lane]
	links [classes]node[*organization]
	lanes int  // all of them
	over  bool // the last claim took nothing for it
}

// take uses some of a resource, or releases it if n is negative.
func (s *Scheduler) take(r resource, o *organization, n int) {
	s.pools[r].used += n
	o.used[r] += n
}

// left returns how much more of a resource an organization may use; less than zero if it uses too much.
func (s *Scheduler) left(r resource, o *organization) int {
	p := s.pools[r]
	if o.used[r] == 0 {
		return p.free()
	}
	return min(burstFactor*p.free()-o.used[r], p.free()-p.size/reservedFraction)
}
