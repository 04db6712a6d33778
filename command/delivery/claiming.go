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
		l.skipped = !l.claimable(ls.limits) || !ls.bodies.roomy(l) || slow && ls.claimed.leftForSlow(l.organization) < minPerClaim
		_, over := ls.over[l.organization]
		_, tight := ls.tight[l.organization] // few of each: most of what is claimed would be given back
		l.asked = !l.skipped && !over
		switch {
		case l.skipped:
			a.Full = append(a.Full, id)
		case slow || tight:
			a.Slow = append(a.Slow, id)
		}
	}
	return a
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
