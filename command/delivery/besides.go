package delivery

import (
	"time"

	"github.com/google/uuid"
)

// Where it is crowded and requests of another organization were begun within besideFor, or wait, organizations that have
// so many under way together divide them between their destinations, in proportion: each destination may have one. More
// would only wait for a processor, with everybody behind them. Those that are overdue wait for somebody else, and don't
// count. Organizations that have few are left alone.
const (
	besides   = 64
	besideFor = time.Second
	few       = 8
)

// latest are two organizations of which requests were begun, the latest first.
type latest [2]struct {
	organization uuid.UUID
	at           time.Time
}

func (l *latest) begins(organization uuid.UUID, now time.Time) {
	if l[0].organization != organization {
		l[1] = l[0]
	}
	l[0].organization, l[0].at = organization, now
}

// besides is how many an organization may have under way beside others, divided between its destinations; 0: as many as
// it may have anyway.
func (ls *lanes) besides(organization uuid.UUID, now time.Time) int {
	own, all := ls.running.inTime(organization), ls.running.allInTime()
	if own < few || all < besides || !ls.others(organization, now) {
		return 0
	}
	return max(1, besides*own/all)
}

// others says that requests of another organization than this were begun lately, or wait. Its turn is not among those of
// others just now.
func (ls *lanes) others(organization uuid.UUID, now time.Time) bool {
	other := ls.latest[0]
	if other.organization == organization {
		other = ls.latest[1]
	}
	return len(ls.turns) > 0 || now.Sub(other.at) < besideFor
}
