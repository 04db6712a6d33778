package delivery

import "time"

// done ends a delivery's request. took is how long the answer took; zero where none was asked for, which says nothing of
// the destination. It reports whether a claim is worth its while that was not before.
func (ls *lanes) done(job Job, took time.Duration) (wants bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(time.Now())
	ended := ls.held[job.ID]
	l := ended.lane
	delete(l.running, job.ID)
	ls.forget(ended)
	ls.running.giveBack(l.organization)
	if ended.slow {
		ls.slow.giveBack(l.organization)
	}
	if t := ls.byOrg[l.organization]; t != nil {
		t.stuck = false
	}
	if ended.over = true; ended.overdue {
		l.overdue--
		ls.running.overdue(l.organization, -1)
	}
	ls.warm(ended)
	ended.Body = nil // it is looked at until it would have been overdue
	if took > 0 {
		l.answered(ls.limits, took, ended.refused)
		l.connected = !ended.hungUp
	}
	ls.wait(l)
	if l.skipped && l.claimable(ls.limits) && ls.bodies.roomy(l) {
		l.skipped, wants = false, true
	}
	if _, over := ls.over[l.organization]; over && ls.claimed.left(l.organization) >= 2*minPerClaim && ls.bodies.left(l.organization) >= largeBody {
		delete(ls.over, l.organization)
		wants = true
	}
	ls.dropIdle(l)
	return wants
}

// sent takes in that a request has ended, of which the outcome is yet to be recorded, whether its connection was kept, and
// whether its receiver asked to be left alone. It reports whether it had opened a connection: then another request may.
func (ls *lanes) sent(job Job, kept, refused bool) (opened bool) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	h := ls.held[job.ID]
	h.hungUp, h.refused, opened = !kept, refused, h.cold
	ls.warm(h)
	return opened
}

// warm counts a request no more that opened a connection.
func (ls *lanes) warm(h *held) {
	if h.cold {
		h.cold = false
		ls.cold.giveBack(h.lane.organization)
	}
}

// dropIdle forgets a lane of which nothing is to be remembered.
func (ls *lanes) dropIdle(l *lane) {
	if l.idle() && !l.late && l.spilled.IsZero() {
		delete(ls.lanes, l.destination)
		if l.connected {
			ls.kept.add(l.destination, time.Now())
		} else {
			ls.kept.forget(l.destination)
		}
	}
}

// forget drops a delivery that waited or was under way.
func (ls *lanes) forget(h *held) {
	delete(ls.held, h.ID)
	ls.letGo(h.lane, h.Body)
	if h.from != nil {
		h.from.giveBack(h.lane.organization)
	}
}
