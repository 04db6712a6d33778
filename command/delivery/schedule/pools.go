package schedule

import "github.com/google/uuid"

// burstFactor is how many times what is free an organization may use. The last part of reservedFraction is for
// organizations that use nothing, and of requests the last part of connectedFraction for connected lanes: others
// may hang.
const (
	burstFactor       = 2
	reservedFraction  = 16
	connectedFraction = 32
)

// resource is a limited capacity.
type resource int

const (
	requests resource = iota
	slowRequests
	openings
	freshWaiting
	claimedHere
	memory
	resources
)

// pool is how much there is of a resource, and how much is used.
type pool struct{ size, used int }

func (p pool) free() int { return max(0, p.size-p.used) }

// organization has the use of the pools by one organization, and its lanes that may start a request, by class.
type organization struct {
	id    uuid.UUID
	used  [resources]int
	ready [classes]ring[*lane]
	links [classes]node[*organization]
	lanes int  // all of them
	over  bool // the last claim took nothing for it
}

// take uses some of a resource, or releases it if n is negative.
func (s *Scheduler) take(r resource, o *organization, n int) {
	s.pools[r].used += n
	o.used[r] += n
}

// left returns how much more of a resource an organization may use; less than zero if it uses too much.
func (s *Scheduler) left(r resource, o *organization) int {
	p := s.pools[r]
	if o.used[r] == 0 {
		return p.free()
	}
	return min(burstFactor*p.free()-o.used[r], p.free()-p.size/reservedFraction)
}
