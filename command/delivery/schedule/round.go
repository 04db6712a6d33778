package schedule

import "time"

// Next takes the delivery whose turn it is; nil if none may start now.
func (s *Scheduler) Next(now time.Time) *Delivery {
	s.advance(now)
	if s.waiting == 0 {
		return nil
	}
	for i := range classes {
		c := (s.nextClass + i) % classes
		if e := s.nextOf(c, now); e != nil {
			s.nextClass = (c + 1) % classes
			return e.Delivery
		}
	}
	return nil
}

// nextOf starts the next request of a class, if there is one that may start.
func (s *Scheduler) nextOf(c class, now time.Time) *entry {
	if s.stalled[c] || !s.allows(c) {
		return nil
	}
	for range s.rounds[c].size {
		if s.rounds[c].size == 0 {
			break
		}
		if e := s.nextIn(s.rounds[c].rotate(), c, now); e != nil {
			return e
		}
	}
	s.stalled[c] = true
	return nil
}

// allows reports whether the pools allow any request of a class.
func (s *Scheduler) allows(c class) bool {
	free := s.pools[requests].free()
	switch c {
	case cold:
		return free > s.settings.InFlight/connectedFraction && s.pools[openings].free() > 0
	case slow:
		return free > s.settings.InFlight/connectedFraction && s.pools[slowRequests].free() > 0
	case connected, classes, noClass:
	}
	return free > 0
}

// nextIn starts the next request of an organization, if its part of the pools allows one more. A lane has no more
// requests in flight than the organization may have besides.
func (s *Scheduler) nextIn(o *organization, c class, now time.Time) *entry {
	left := s.left(requests, o)
	opens := s.left(openings, o) > 0
	if left <= 0 && c != slow || c == cold && !opens || c == slow && s.left(slowRequests, o) <= 0 {
		return nil
	}
	for range o.ready[c].size {
		if o.ready[c].size == 0 {
			break
		}
		l := o.ready[c].rotate()
		if s.classOf(l, now) != c {
			s.file(l, now)
			continue
		}
		if c != slow && l.running >= left || l.idle == 0 && !opens {
			continue
		}
		return s.start(l, now)
	}
	return nil
}

// Resume takes deliveries that are in flight already, for a schedule that replaces another one.
func (s *Scheduler) Resume(inFlight []*Delivery, now time.Time) {
	for _, d := range inFlight {
		s.waiting++
		s.begin(s.enter(d, s.laneOf(d, now)), now)
	}
}

// start begins the next request of a lane.
func (s *Scheduler) start(l *lane, now time.Time) *entry {
	e := l.queue.next(!l.refusedFreshAt.IsZero())
	s.begin(e, now)
	return e
}

// begin counts a delivery that waited as in flight.
func (s *Scheduler) begin(e *entry, now time.Time) {
	l := e.lane
	e.running, e.began = true, now
	l.running++
	l.used = now
	s.waiting--
	s.count(l, 1)
	if !e.Claimed {
		s.take(freshWaiting, l.org, -1)
	}
	if l.idle > 0 {
		s.use(l)
	} else {
		e.opening = true
		s.take(openings, l.org, 1)
		s.opening = append(s.opening, e)
	}
	if l.rest != nil {
		l.rest.next = now.Add(l.rest.pace)
	}
	if l.limit != nil {
		l.limit.begin()
	}
	s.begun = append(s.begun, e)
	s.file(l, now)
}

// count counts n more requests of a lane.
func (s *Scheduler) count(l *lane, n int) {
	if l.asSlow {
		s.take(slowRequests, l.org, n)
		s.pools[requests].used += n
		return
	}
	s.take(requests, l.org, n)
}

// recount counts the requests of a lane that became slow as slow, and returns its waiting deliveries; or as others
// again.
func (s *Scheduler) recount(l *lane, now time.Time) {
	if l.slow() == l.asSlow {
		return
	}
	s.count(l, -l.running)
	l.asSlow = l.slow()
	s.count(l, l.running)
	s.stalled = [classes]bool{}
	if l.asSlow {
		s.shorten(l, l.maxWaiting(now), now)
	}
	s.file(l, now)
}

// classOf returns the cost of the next request of a lane; noClass if it may start none.
func (s *Scheduler) classOf(l *lane, now time.Time) class {
	if l.idle > 0 && now.Sub(l.used) > connectedFor {
		s.disconnect(l)
	}
	switch {
	case !l.mayStart(now):
		return noClass
	case l.slow():
		return slow
	case l.idle > 0:
		return connected
	}
	return cold
}

// file puts a lane into the round in which it belongs, or out of all.
func (s *Scheduler) file(l *lane, now time.Time) {
	c, o := s.classOf(l, now), l.org
	if c == noClass {
		s.await(l, now)
	}
	if c == l.filed {
		return
	}
	if l.filed != noClass {
		o.ready[l.filed].remove(&l.links)
		if o.ready[l.filed].size == 0 {
			s.rounds[l.filed].remove(&o.links[l.filed])
		}
	}
	if l.filed = c; c == noClass {
		return
	}
	if o.ready[c].size == 0 {
		s.rounds[c].push(&o.links[c])
	}
	o.ready[c].push(&l.links)
	s.stalled[c] = false
}
