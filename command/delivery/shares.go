package delivery

import "github.com/google/uuid"

// lent is how many times what is free an organization may use.
const lent = 2

// Which part of all is left to those who have nothing yet, and which part of the requests to destinations that are
// connected: the others may hang.
const (
	spared         = 16
	sparedToProven = 32
)

// shares divides what is scarce, such as requests at one time, between organizations. Nobody has a fixed part. An
// organization may use twice what is free: one that is alone gets two thirds of all; ten that want all they can get have
// two parts in twenty-one each, and one part stays free. So who comes later finds room at once, nothing has to be taken
// away from anybody, and what one no longer uses the others get. Where they are so many that next to nothing stays free, the
// last sixteenth is for those who have nothing yet.
type shares struct {
	size int
	used int
	by   map[uuid.UUID]int // by organization
	late map[uuid.UUID]int // of those, by organization: what will be in use for a long time
	long int               // the same of all
}

func newShares(size int) *shares {
	return &shares{size: size, by: map[uuid.UUID]int{}, late: map[uuid.UUID]int{}}
}

func (s *shares) take(organization uuid.UUID) {
	s.used++
	s.by[organization]++
}

func (s *shares) giveBack(organization uuid.UUID) {
	s.used--
	if s.by[organization]--; s.by[organization] == 0 {
		delete(s.by, organization)
	}
}

// overdue says that so many more are in use for a long time.
func (s *shares) overdue(organization uuid.UUID, more int) {
	s.long += more
	if s.late[organization] += more; s.late[organization] == 0 {
		delete(s.late, organization)
	}
}

// inTime is how many an organization has in use that will not be for a long time.
func (s *shares) inTime(organization uuid.UUID) int { return s.by[organization] - s.late[organization] }

// allInTime is the same of all organizations together.
func (s *shares) allInTime() int { return s.used - s.long }

func (s *shares) free() int { return max(0, s.size-s.used) }

// left is how many more an organization may take. What is in use for a long time counts half, so that what hangs leaves
// room for what does not. Within an organization a destination may have as many as are left, by the same rule.
func (s *shares) left(organization uuid.UUID) int {
	free, has := s.free(), s.by[organization]
	if has > 0 {
		return min(lent*free-has+s.late[organization]/2, free-s.size/spared)
	}
	return free
}

// leftForSlow is how many more it may take for destinations that are slow: they get half of its share, so that those
// that are not have room beside them however many they are.
func (s *shares) leftForSlow(organization uuid.UUID) int {
	return min(lent*s.free()-2*s.by[organization], s.free())
}
