package schedule

// Bytes returns how many bytes of bodies are here.
func (s *Scheduler) Bytes() int { return s.pools[memory].used }

// Lanes returns how many lanes are known.
func (s *Scheduler) Lanes() int { return len(s.lanes) }
