package delivery

import (
	"time"

	"github.com/google/uuid"
)

// Ask says what a claim may take.
type Ask struct {
	Limit          int           // deliveries in all
	PerDestination int           // deliveries of one destination
	Lease          time.Duration // for which they are held
	Full           []uuid.UUID   // destinations of which nothing is taken
	Slow           []uuid.UUID   // destinations of which PerSlow are taken
	PerSlow        int
	Over           []uuid.UUID       // organizations of which nothing is taken
	Bytes          int               // of data of all their events, each counted once; but one event whatever its size, and small ones
	BytesOf        map[uuid.UUID]int // the same of organizations for which it is another number
}

// ask says what a claim may take now. Claims have a budget of their own, so that whatever else waits here leaves room
// for retries and replays. Where the limit is 0 nothing can be taken.
func (ls *lanes) ask() (a Ask) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.look(time.Now())
	ofSlow := ls.cut()
	a.Limit, a.PerDestination, a.PerSlow = min(maxClaim, ls.claimed.free()), maxPerDestination, max(1, ls.limits.PerSlow/2)
	clear(ls.over)
	for organization := range ls.claimed.by {
		left := ls.claimed.left(organization)
		if left < minPerClaim {
			ls.over[organization] = struct{}{}
			a.Over = append(a.Over, organization)
			continue
		}
		a.Limit = min(a.Limit, left) // it may all be of this one
	}
	for organization := range ls.bodies.by {
		if _, over := ls.over[organization]; !over && ls.bodies.left(organization) < largeBody {
			ls.over[organization] = struct{}{}
			a.Over = append(a.Over, organization)
		}
	}
	ls.bodies.tell(&a)
	for id, l := range ls.lanes {
		slow := l.slow()
		l.skipped = !l.claimable(ls.limits) || !ls.bodies.roomy(l) || l.rest != nil && time.Now().Before(l.rest.until) ||
			slow && (ofSlow > ls.limits.Claimed/2 || ls.claimed.leftForSlow(l.organization) < minPerClaim)
		_, over := ls.over[l.organization]
		_, tight := ls.tight[l.organization] // few of each: most of what is claimed would be given back
		l.asked = !l.skipped && !over
		switch {
		case l.skipped:
			a.Full = append(a.Full, id)
		case slow || tight || l.rest != nil && l.rest.slow():
			a.Slow = append(a.Slow, id)
		}
	}
	return a
}

// cut leaves in the queue of each slow lane as many as go on soon: the others would wait here for longer than their leases
// last, and go back to the queue. Where so much is here for slow lanes that little can be claimed for others, nothing
// waits for them. It returns how many deliveries are here for slow lanes.
func (ls *lanes) cut() (ofSlow int) {
	for _, most := range []int{ls.limits.PerSlow, 0} {
		ofSlow = 0
		for _, l := range ls.lanes {
			if l.slow() {
				ls.shorten(l, most)
				ofSlow += len(l.running) + l.waits()
			}
		}
		if ofSlow <= ls.limits.Claimed*3/4 {
			break
		}
	}
	return ofSlow
}

// shorten lets go of what came last to a lane, so that no more wait.
func (ls *lanes) shorten(l *lane, most int) {
	if l.queue.len() <= most {
		return
	}
	ls.queued -= l.queue.len() - most
	l.queue.shorten(most, func(waits *held) {
		ls.back = append(ls.back, waits.Job)
		ls.forget(waits)
	})
	l.spilled = time.Now()
}

// putBack takes on what goes back to the queue.
func (ls *lanes) putBack(jobs []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	ls.back = append(ls.back, jobs...)
}

// takeBack hands over what goes back to the queue.
func (ls *lanes) takeBack() (back []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	back, ls.back = ls.back, nil
	return back
}

// answer takes in what came of a claim. Where nothing came of a destination that it took of, all that waits for it is
// here again, unless something is still on its way into the read model.
func (ls *lanes) answer(a Ask, claimed []Job) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	came := make(map[uuid.UUID]struct{}, len(claimed))
	for _, job := range claimed {
		came[job.Target.ID] = struct{}{}
		delete(ls.tight, job.Target.Organization)
	}
	for _, organization := range a.tight(claimed) {
		ls.tight[organization] = struct{}{}
	}
	for id, l := range ls.lanes {
		_, more := came[id]
		if _, tight := ls.tight[l.organization]; l.asked && !more && !tight && len(claimed) < a.Limit && time.Since(l.spilled) > expectTime {
			l.spilled = time.Time{}
			ls.dropIdle(l)
		}
		l.asked = false
	}
}
