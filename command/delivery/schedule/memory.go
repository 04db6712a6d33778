package schedule

const (
	// SmallBody is the size up to which a body is not counted: how many deliveries are here bounds the memory of
	// those.
	SmallBody = 2 << 10
	// LargestBody is the size of the largest event.
	LargestBody = 513 << 10
	// guaranteedBytes are for each organization, whatever others have, as long as no more than twice the pool is
	// used: so that it gets a large body through however much hangs elsewhere.
	guaranteedBytes = 2 * LargestBody
)

// body counts the deliveries of an event that are here, by organization.
type body map[*organization]int

// bytes returns what a delivery's body counts.
func (d *Delivery) bytes() int {
	if d.Size <= SmallBody {
		return 0
	}
	return d.Size
}

// hold counts one more delivery of a body for a lane.
func (s *Scheduler) hold(d *Delivery, l *lane) {
	size := d.bytes()
	if size == 0 {
		return
	}
	l.bytes += size
	b := s.bodies[d.Event]
	if b == nil {
		b = body{}
		s.bodies[d.Event] = b
		s.pools[memory].used += size
	}
	if b[l.org] == 0 {
		l.org.used[memory] += size
	}
	b[l.org]++
}

// letGo counts one less.
func (s *Scheduler) letGo(d *Delivery, l *lane) {
	size := d.bytes()
	if size == 0 {
		return
	}
	l.bytes -= size
	b := s.bodies[d.Event]
	if b[l.org]--; b[l.org] == 0 {
		delete(b, l.org)
		l.org.used[memory] -= size
	}
	if len(b) == 0 {
		delete(s.bodies, d.Event)
		s.pools[memory].used -= size
	}
}

// bytesLeft returns how many more bytes an organization may use.
func (s *Scheduler) bytesLeft(o *organization) int {
	return max(s.left(memory, o), min(guaranteedBytes-o.used[memory], s.bytesInAll()))
}

// bytesInAll returns how many more bytes all may use together, including the guaranteed ones.
func (s *Scheduler) bytesInAll() int { return max(0, 2*s.pools[memory].size-s.pools[memory].used) }

// fits reports whether there is memory for a delivery. A body that is already here for its organization costs
// nothing more.
func (s *Scheduler) fits(d *Delivery, l *lane) bool {
	size := d.bytes()
	return size == 0 || s.bodies[d.Event][l.org] > 0 || l.bytes+size <= s.bytesLeft(l.org)
}

// roomy reports whether a claim may take large bodies for a lane.
func (s *Scheduler) roomy(l *lane) bool {
	left := s.bytesLeft(l.org)
	if l.slow() { // those that answer have room beside them
		left = max(s.left(memory, l.org)-l.org.used[memory], min(guaranteedBytes-l.org.used[memory], s.bytesInAll()))
		return left >= LargestBody
	}
	return l.bytes == 0 || l.bytes <= left
}
