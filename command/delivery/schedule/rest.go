package schedule

import (
	"time"

	"github.com/google/uuid"
)

const (
	maxFirstPace  = time.Second            // after the first refusal: how much a receiver takes is not known yet
	maxPace       = 10 * time.Second       // from which some dozen answers find back
	minPace       = time.Millisecond       // a shorter pace is none
	guessAnswers  = 8                      // answers until a guessed pace is nearly three times as fast
	paceAnswers   = 32                     // answers until a receiver is sent as much again as it took before
	paceDip       = 0.25                   // of that, by which it is sent less at first
	slowPace      = 10 * time.Millisecond  // from which on a claim takes few deliveries
	restInMemory  = 15 * time.Second       // a longer rest returns what waits to the read model
	restTolerance = 100 * time.Millisecond // by which reports of one rest differ
	restHeard     = 2 * time.Second        // how long a rest counts that the read model does not know yet
	restForgotten = 10 * time.Minute       // after its end
)

// rest is the time in which nothing is sent to a destination, because its receiver asked for that, and the pace at
// which what waited is sent afterwards: as much as it took before, then more with each answer, until it refuses
// again.
type rest struct {
	until   time.Time
	noted   time.Time     // when it was last heard of
	pace    time.Duration // between two requests; 0 means none is kept
	took    time.Duration // the pace that the receiver took before it refused; 0 means unknown
	next    time.Time     // when the next request may begin
	answers int           // since it ended
}

// begin starts a rest, or extends the current one, and reports whether other processes do not know that.
func (r *rest) begin(now, until time.Time, window int) (news bool) {
	r.noted = now
	if now.Before(r.until) { // refused for earlier requests
		news = until.Sub(r.until) > restTolerance
		r.until = later(r.until, until)
		r.next = later(r.next, r.until)
		return news
	}
	switch {
	case r.answers > 0:
		r.took = min(until.Sub(r.until)/time.Duration(r.answers), maxPace)
		r.answers = 0
		r.pace = r.rising()
	case r.pace > 0:
		r.took, r.pace = 0, min(2*r.pace, maxPace)
	default:
		r.pace = min(until.Sub(now)/time.Duration(max(window, 1)), maxFirstPace)
	}
	r.until, r.next, r.answers = until, until, 0
	return true
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func sooner(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}

// answered takes in an answer that is no refusal.
func (r *rest) answered() {
	r.answers++
	if r.took > 0 {
		r.pace = r.rising()
	} else {
		r.pace -= r.pace / guessAnswers
	}
	if r.pace < minPace {
		r.pace = 0
	}
}

// rising returns the pace by the answers since the rest. It rises to what the receiver took before, stays near that for
// as many answers again, where the next refusal is likely, and then rises ever faster.
func (r *rest) rising() time.Duration {
	x := float64(r.answers)/paceAnswers - 1
	return time.Duration(float64(r.took) / (1 + paceDip*x*x*x))
}

// room returns how many deliveries may wait in memory.
func (r *rest) room(now time.Time) int {
	switch {
	case r.until.Sub(now) > restInMemory:
		return 0
	case r.pace > 0:
		return max(slowWindow, int(laneQueueTime/r.pace))
	}
	return maxLaneQueue
}

// Rest lets no request begin for a destination until a time, halves its window, and reports whether other processes
// do not know that.
func (s *Scheduler) Rest(destination uuid.UUID, until, now time.Time) (news bool) {
	r, l := s.rests[destination], s.lanes[destination]
	if r == nil {
		r = &rest{}
		s.rests[destination] = r
	}
	first, window := !now.Before(r.until), startWindow
	if l != nil {
		window = l.window
	}
	news = r.begin(now, until, window)
	if l == nil {
		return news
	}
	l.rest = r
	if first {
		l.halve(now, now)
	}
	s.shorten(l, r.room(now), now)
	s.file(l, now)
	return news
}

// Changed ends a destination's rest, and sets its limit: it is another receiver now, or its owner has done something
// about it.
func (s *Scheduler) Changed(destination uuid.UUID, limit float64, now time.Time) {
	if l := s.lanes[destination]; l != nil {
		s.setLimit(l, limit, now)
	}
	s.endBackoff(destination, now)
}

// endBackoff ends a destination's rest.
func (s *Scheduler) endBackoff(destination uuid.UUID, now time.Time) {
	if s.rests[destination] == nil {
		return
	}
	delete(s.rests, destination)
	if l := s.lanes[destination]; l != nil {
		l.rest = nil
		s.file(l, now)
	}
}

// Resting takes in for how long destinations are to rest as all processes know it. A rest that they do not know has
// ended early, unless it was begun just now.
func (s *Scheduler) Resting(known map[uuid.UUID]time.Duration, now time.Time) {
	for id, left := range known {
		until := now.Add(left)
		if r := s.rests[id]; r != nil && until.Sub(r.until) < restTolerance {
			r.noted = now
			continue
		}
		s.Rest(id, until, now)
	}
	for id, r := range s.rests {
		_, is := known[id]
		if !is && now.Before(r.until) && now.Sub(r.noted) > restHeard || now.Sub(r.until) > restForgotten {
			s.endBackoff(id, now)
		}
	}
}

// await notes when a lane may start something that its rest, its pace or its limit holds back.
func (s *Scheduler) await(l *lane, now time.Time) {
	if l.queue.len() == 0 {
		return
	}
	if l.paced(now) {
		s.restEnds = sooner(s.restEnds, l.rest.next)
	}
	if l.limit != nil {
		s.awaitSlot(l, now)
	}
}

// endRests files the lanes again whose rests have ended, or whose pace or limit allows the next request.
func (s *Scheduler) endRests(now time.Time) {
	if s.restEnds.IsZero() || now.Before(s.restEnds) {
		return
	}
	s.restEnds = time.Time{}
	for id := range s.rests {
		if l := s.lanes[id]; l != nil {
			s.file(l, now)
		}
	}
	for l := range s.limited {
		s.file(l, now)
	}
}
