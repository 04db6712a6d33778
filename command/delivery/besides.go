package delivery

import (
	"time"

	"github.com/google/uuid"
)

// Where it is crowded and requests of another organization were begun within besideFor, or wait, an organization with
// so many under way divides them between its destinations: each may have one. More would only wait for a processor, with
// everybody behind them. Those that are overdue wait for somebody else, and don't count.
const (
	besides   = 64
	besideFor = time.Second
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

// besides says that an organization has enough under way beside others. Its turn is not among those of others just now.
func (ls *lanes) besides(organization uuid.UUID, now time.Time) bool {
	if ls.running.inTime(organization) < besides {
		return false
	}
	other := ls.latest[0]
	if other.organization == organization {
		other = ls.latest[1]
	}
	return len(ls.turns) > 0 || now.Sub(other.at) < besideFor
}
