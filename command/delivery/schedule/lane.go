package schedule

import (
	"time"

	"github.com/google/uuid"
)

// class is the cost of the next request of a lane.
type class int

const (
	connected class = iota
	cold
	slow
	classes
	noClass class = -1 // it may start nothing
)

// lane is the queue of one destination.
type lane struct {
	id             uuid.UUID
	org            *organization
	queue          queue
	window         int           // requests at one time
	kept           int           // deliveries that room is kept for
	running        int           // requests in flight
	overdue        int           // of those, for longer than SlowAfter
	late           bool          // the last answer took longer than SlowAfter
	asSlow         bool          // its requests are counted as slow
	took           time.Duration // that an answer takes, on average; zero: it is not known
	halved         time.Time     // when its window was, last
	idle           int           // connections that are idle, as far as is known
	bytes          int           // of bodies that wait or are in flight
	rest           *rest         // nil: its receiver did not ask for one lately
	limit          *limit        // nil: none is known
	used           time.Time     // when something last came or ended
	refusedFreshAt time.Time     // when it last refused a fresh delivery; zero: all its deliveries are here
	skipped        bool          // by the last claim: more may wait for it in the read model
	inClaim        bool          // the claim that is being made may take some for it

	filed     class       // the round in which it is
	links     node[*lane] // in that round
	amongIdle node[*lane] // among those with idle connections
}

// slow reports whether its last answer came late, or one is late that has not come yet.
func (l *lane) slow() bool { return l.late || l.overdue > 0 }

// here counts waiting deliveries, requests in flight, and what room is kept for.
func (l *lane) here() int { return l.queue.len() + l.kept + l.running }

// maxWaiting returns how many deliveries may wait: as many as are sent within laneQueueTime at its pace. A slow
// lane has no more than it may send.
func (l *lane) maxWaiting(now time.Time) int {
	switch {
	case l.slow():
		return max(0, l.maxRunning()-l.running)
	case l.limit != nil && l.rest != nil:
		return min(l.limit.room(), l.rest.room(now), startLaneQueue)
	case l.limit != nil:
		return min(l.limit.room(), startLaneQueue)
	case l.rest != nil:
		return min(l.rest.room(now), startLaneQueue)
	case l.took == 0:
		return startLaneQueue
	}
	return min(maxLaneQueue, max(startLaneQueue/4, int(laneQueueTime/l.took)*l.window))
}

// takesFresh reports whether a fresh delivery may wait, however many were claimed. While older ones wait in the read
// model, fresh ones only keep the lane from running dry.
func (l *lane) takesFresh(now time.Time) bool {
	switch {
	case l.slow():
		return false
	case !l.refusedFreshAt.IsZero():
		return l.queue.len()+l.kept < l.maxWaiting(now)/4
	}
	return len(l.queue.fresh)+l.kept < l.maxWaiting(now)
}

// stillRoomy reports whether a delivery may wait that room was promised to. Behind a limit, or a rest or slow answers
// that came since, its lease would end.
func (l *lane) stillRoomy(now time.Time) bool {
	return !l.slow() && l.rest == nil && l.limit == nil || l.queue.len() < l.maxWaiting(now)
}

// claimable reports whether a claim for it is worthwhile: at least half of its room is free.
func (l *lane) claimable(now time.Time) bool {
	if l.slow() {
		return l.here() < l.maxRunning()
	}
	return !l.resting(now) && 2*l.queue.len() < l.maxWaiting(now)
}

func (l *lane) resting(now time.Time) bool { return l.rest != nil && now.Before(l.rest.until) }

func (l *lane) maxRunning() int {
	if l.slow() {
		return min(l.window, slowWindow)
	}
	return l.window
}

// paced reports whether its rest, or the pace after it, allows no request yet.
func (l *lane) paced(now time.Time) bool { return l.rest != nil && now.Before(l.rest.next) }

// mayStart reports whether it has something to send that its window, its rest and its limit allow.
func (l *lane) mayStart(now time.Time) bool {
	return l.queue.len() > 0 && l.running < l.maxRunning() && !l.paced(now) && l.limit.allows(now)
}

// learn records the outcome of a request that began at a time.
func (l *lane) learn(began time.Time, o Outcome, s Settings, now time.Time) {
	const weight = 8 // of the average before
	if l.took == 0 {
		l.took = o.Took
	}
	l.took += (o.Took - l.took) / weight
	l.late = o.Took > s.SlowAfter
	switch {
	case o.Refused: // the rest has halved the window
	case o.Failed || l.late:
		l.halve(began, now)
	default:
		if l.rest != nil {
			l.rest.answered()
		}
		l.window = min(l.window+1, s.PerLane)
	}
}

// halve halves the window, once for all requests that were in flight at the same time.
func (l *lane) halve(began, now time.Time) {
	if !began.Before(l.halved) {
		l.window, l.halved = max(1, l.window/2), now
	}
}
