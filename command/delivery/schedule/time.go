package schedule

import "time"

// advance takes in that time has passed: requests that are overdue, connections that are open by now, rests that have
// ended, and lanes of which nothing has to be remembered.
func (s *Scheduler) advance(now time.Time) {
	for len(s.opening) > 0 && (s.opening[0].ended || now.Sub(s.opening[0].began) >= openingFor) {
		s.opened(s.opening[0])
		s.opening[0] = nil
		s.opening = s.opening[1:]
	}
	for len(s.begun) > 0 && (s.begun[0].ended || now.Sub(s.begun[0].began) > s.settings.SlowAfter) {
		if e := s.begun[0]; !e.ended {
			e.overdue = true
			e.lane.overdue++
			e.lane.halve(e.began, now)
			s.recount(e.lane, now)
		}
		s.begun[0] = nil
		s.begun = s.begun[1:]
	}
	s.endRests(now)
	if now.Sub(s.swept) >= sweepEvery {
		s.sweep(now)
	}
}

// opened counts a request no more as one that opens a connection.
func (s *Scheduler) opened(e *entry) {
	if e.opening {
		e.opening = false
		s.take(openings, e.lane.org, -1)
		s.stalled = [classes]bool{}
	}
}

// sweep forgets lanes that were not used lately.
func (s *Scheduler) sweep(now time.Time) {
	s.swept = now
	for id, l := range s.lanes {
		remembered := laneMemory
		if l.slow() || !l.refusedFreshAt.IsZero() {
			remembered = slowLaneMemory
		}
		if l.here() > 0 || now.Sub(l.used) < remembered {
			continue
		}
		s.disconnect(l)
		delete(s.lanes, id)
		delete(s.limited, l)
		if l.org.lanes--; l.org.lanes == 0 {
			delete(s.orgs, l.org.id)
		}
	}
}

// keep notes one more idle connection of a lane. Of all lanes no more are taken to be idle than are kept open.
func (s *Scheduler) keep(l *lane, now time.Time) {
	if l.idle > 0 {
		s.idleLanes.remove(&l.amongIdle)
	}
	s.idleLanes.push(&l.amongIdle)
	l.idle++
	s.idle++
	for s.idle > s.settings.InFlight/4 && s.idleLanes.size > 1 {
		oldest := s.idleLanes.first.value
		s.disconnect(oldest)
		s.file(oldest, now)
	}
}

// use takes an idle connection of a lane.
func (s *Scheduler) use(l *lane) {
	s.idle--
	if l.idle--; l.idle == 0 {
		s.idleLanes.remove(&l.amongIdle)
	}
}

// disconnect takes all idle connections of a lane to be closed.
func (s *Scheduler) disconnect(l *lane) {
	if l.idle > 0 {
		s.idle -= l.idle
		l.idle = 0
		s.idleLanes.remove(&l.amongIdle)
	}
}
