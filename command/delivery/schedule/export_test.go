package schedule

// Bytes returns how many bytes of bodies are here.
func (s *Scheduler) Bytes() int { return s.pools[memory].used }

// Left counts all that is remembered of lanes and deliveries.
func (s *Scheduler) Left() int {
	left := len(s.lanes) + len(s.orgs) + len(s.limited) + len(s.bodies) + len(s.here) + s.idle + s.idleLanes.size
	for _, p := range s.pools {
		left += p.used
	}
	return left
}
