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
	Limit          int         // deliveries in all; 0 means none
	PerDestination int         // deliveries of one destination
	Full           []uuid.UUID // destinations of which nothing is taken
	Slow           []uuid.UUID // destinations of which PerSlow are taken
	PerSlow        int
	Over           []uuid.UUID // organizations of which nothing is taken
	// Bytes bounds the data of all their events, each counted once; small ones, and one of any size, count nothing.
	Bytes   int
	BytesOf map[uuid.UUID]int // exceptions by organization
}

// Room returns what a claim may take now, and whether older deliveries wait in the read model for a lane that has room.
// Claimed deliveries have a separate pool, so that retries and replays find room whatever else waits.
func (s *Scheduler) Room(now time.Time) (r Room, behind bool) {
	s.advance(now)
	r = Room{
		Limit:          min(maxClaim, s.pools[claimedHere].free()),
		PerDestination: maxLaneClaim,
		PerSlow:        slowClaim,
		Bytes:          max(s.pools[memory].free(), min(guaranteedBytes, s.bytesInAll())),
		BytesOf:        map[uuid.UUID]int{},
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
		if l.here() == 0 && !l.slow() && l.rest == nil && l.limit == nil && l.refusedFreshAt.IsZero() {
			l.skipped, l.inClaim = false, false
			continue
		}
		l.skipped = !l.claimable(now) || !s.roomy(l) || l.slow() && s.left(slowRequests, l.org) <= 0
		l.inClaim = !l.skipped && !l.org.over
		behind = behind || l.inClaim && !l.slow() && !l.refusedFreshAt.IsZero()
		switch {
		case l.skipped:
			r.Full = append(r.Full, id)
		case l.slow() || l.rest != nil && l.rest.pace >= slowPace || l.limit != nil && l.limit.gap() >= slowPace:
			r.Slow = append(r.Slow, id)
		}
	}
	return r, behind
}

// Claimed records the result of a claim, before it is offered. If nothing came for a lane that the claim took of,
// all that waits for it is here, unless it refused something so lately that it is still on its way into the read
// model.
func (s *Scheduler) Claimed(r Room, claimed []*Delivery, settled time.Duration, now time.Time) {
	got, short := make(map[uuid.UUID]bool, len(claimed)), map[uuid.UUID]bool{}
	for i := range claimed {
		got[claimed[i].Destination] = true
		if claimed[i].bytes() > 0 {
			short[claimed[i].Organization] = true // the claim may have left deliveries for lack of memory
		}
	}
	for id, l := range s.lanes {
		if l.inClaim && !got[id] && !short[l.org.id] && len(claimed) < r.Limit && now.Sub(l.refusedFreshAt) > settled {
			l.refusedFreshAt = time.Time{}
		}
		l.inClaim = false
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
