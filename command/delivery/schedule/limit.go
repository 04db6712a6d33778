package schedule

import (
	"time"

	"github.com/google/uuid"
)

const (
	limitBlock   = 100 * time.Millisecond // of requests that are asked for at once
	limitExpires = time.Second            // after which requests of a turn that were not begun are void
)

// limit is the most that a destination takes, by all processes together: requests are begun in turns, which the caller
// gets for the lane.
type limit struct {
	perSecond float64
	left      int       // requests that the current turn allows
	next      time.Time // when the next request may begin, or the next turn may be asked for
	asked     bool      // for a turn
}

// Turn asks that a number of requests to a destination may begin within an interval.
type Turn struct {
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

// Turns returns the turns that are needed now. Each is answered by Granted or Denied.
func (s *Scheduler) Turns() (turns []Turn) {
	for _, l := range s.needsTurn {
		if l.limit == nil || l.queue.len() == 0 {
			continue
		}
		n := max(1, min(l.queue.len(), int(limitBlock.Seconds()*l.limit.perSecond)))
		turns = append(turns, Turn{
			Destination: l.id,
			Requests:    n,
			Interval:    time.Duration(n) * l.limit.gap(),
		})
	}
	clear(s.needsTurn)
	s.needsTurn = s.needsTurn[:0]
	return turns
}

// Granted lets the requests of a turn begin.
func (s *Scheduler) Granted(t Turn, now time.Time) { s.answerTurn(t, t.Requests, now, now) }

// Denied lets the turn be asked for again after a while.
func (s *Scheduler) Denied(t Turn, wait time.Duration, now time.Time) {
	s.answerTurn(t, 0, now.Add(wait), now)
}

func (s *Scheduler) answerTurn(t Turn, requests int, next, now time.Time) {
	l := s.lanes[t.Destination]
	if l == nil || l.limit == nil {
		return
	}
	l.limit.asked, l.limit.left, l.limit.next = false, requests, next
	s.file(l, now)
}

// awaitTurn notes that a lane needs a turn, or when its limit allows the next request.
func (s *Scheduler) awaitTurn(l *lane, now time.Time) {
	m := l.limit
	switch {
	case m.next.After(now):
		s.restEnds = sooner(s.restEnds, m.next)
	case !m.asked && !m.allows(now) && l.running < l.maxRunning() && !l.paced(now):
		m.asked, m.left = true, 0
		s.needsTurn = append(s.needsTurn, l)
	}
}

// setLimit sets the limit of a lane; 0 means none.
func (s *Scheduler) setLimit(l *lane, perSecond float64, now time.Time) {
	switch {
	case perSecond == 0:
		l.limit = nil
		delete(s.limited, l)
	case l.limit == nil:
		l.limit = &limit{perSecond: perSecond, next: now}
		s.limited[l] = struct{}{}
	case l.limit.perSecond != perSecond:
		*l.limit = limit{perSecond: perSecond, next: now, asked: l.limit.asked}
	}
	s.shorten(l, l.maxWaiting(now), now)
}

// again lets a delivery wait once more that was not sent, because its destination has another limit.
func (s *Scheduler) again(e *entry, perSecond float64, now time.Time) {
	l := e.lane
	waits := &entry{Delivery: e.Delivery, lane: l, came: e.came}
	s.here[e.ID] = waits
	l.queue.putBack(waits)
	s.waiting++
	if !e.Claimed {
		s.take(freshWaiting, l.org, 1)
	}
	s.setLimit(l, perSecond, now)
}
