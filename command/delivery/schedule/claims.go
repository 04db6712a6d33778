package schedule

import (
	"time"

	"github.com/google/uuid"
)

// A claim takes at most this much in all, for a lane, and for a slow or paced lane; and nothing for an organization
// with less left.
const (
	maxClaim     = 512
	maxLaneClaim = 128
	slowClaim    = 2
	minClaim     = 16
)

// Room limits what a claim may take.
type Room struct {
	Limit   int         // deliveries in all; 0 means none
	PerLane int         // deliveries of one destination
	Full    []uuid.UUID // destinations of which nothing is taken
	Slow    []uuid.UUID // destinations of which PerSlow are taken
	PerSlow int
	Over    []uuid.UUID       // organizations of which nothing is taken
	Bytes   int               // of bodies
	BytesOf map[uuid.UUID]int // exceptions by organization
	// Behind reports that older deliveries wait in the read model for a lane that has room.
	Behind bool
}

// Room returns what a claim may take now. Claimed deliveries have a separate pool, so that retries and replays
// find room whatever else waits.
func (s *Scheduler) Room(now time.Time) Room {
	s.advance(now)
	r := Room{
		Limit:   min(maxClaim, s.pools[claimedHere].free()),
		PerLane: maxLaneClaim,
		PerSlow: slowClaim,
		Bytes:   max(s.pools[memory].free(), min(guaranteedBytes, s.bytesInAll())),
		BytesOf: map[uuid.UUID]int{},
	}
	for id, o := range s.orgs {
		left, used := s.left(claimedHere, o), o.used[claimedHere] > 0
		o.over = used && left < minClaim || s.bytesLeft(o) < LargestBody
		switch {
		case o.over:
			r.Over = append(r.Over, id)
		case used:
			r.Limit = min(r.Limit, left) // it may all be of this one
		}
		if o.used[memory] > 0 {
			r.BytesOf[id] = s.bytesLeft(o)
		}
	}
	for id, l := range s.lanes {
		if l.here() == 0 && !l.slow() && l.rest == nil && l.limit == nil && l.spilled.IsZero() {
			l.skipped, l.asked = false, false
			continue
		}
		l.skipped = !l.claimable(now) || !s.roomy(l) || l.slow() && s.left(slowRequests, l.org) <= 0
		l.asked = !l.skipped && !l.org.over
		r.Behind = r.Behind || l.asked && !l.slow() && !l.spilled.IsZero()
		switch {
		case l.skipped:
			r.Full = append(r.Full, id)
		case l.slow() || l.rest != nil && l.rest.pace >= slowPace || l.limit != nil && l.limit.gap() >= slowPace:
			r.Slow = append(r.Slow, id)
		}
	}
	return r
}

// Claimed records the result of a claim, before it is offered. If nothing came for a lane that the claim took of,
// all that waits for it is here, unless it refused something so lately that it is still on its way into the read
// model.
func (s *Scheduler) Claimed(r Room, claimed []Delivery, settled time.Duration, now time.Time) {
	came, short := make(map[uuid.UUID]bool, len(claimed)), map[uuid.UUID]bool{}
	for i := range claimed {
		came[claimed[i].Destination] = true
		if claimed[i].bytes() > 0 {
			short[claimed[i].Organization] = true // the claim may have left deliveries for lack of memory
		}
	}
	for id, l := range s.lanes {
		if l.asked && !came[id] && !short[l.org.id] && len(claimed) < r.Limit && now.Sub(l.spilled) > settled {
			l.spilled = time.Time{}
		}
		l.asked = false
	}
}

// wanted reports whether a claim is worthwhile that skipped a lane or its organization.
func (s *Scheduler) wanted(l *lane, now time.Time) (wanted bool) {
	if l.skipped && l.claimable(now) && s.roomy(l) {
		l.skipped, wanted = false, true
	}
	if l.org.over && s.left(claimedHere, l.org) >= 2*minClaim && s.bytesLeft(l.org) >= LargestBody {
		l.org.over, wanted = false, true
	}
	return wanted
}
