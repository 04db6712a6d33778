package persistent

import "time"

// Info describes a running group.
type Info struct {
	Settings   Settings
	Status     string
	Checkpoint uint64 // cursor
	LastKnown  uint64 // cursor
	Total      int64
	SinceLast  int64
	PerSecond  int32
	Fresh      int // waiting, of those read before the group had caught up
	Live       int // waiting, of those read since
	Retries    int
	InFlight   int
	Parked     int64
	Consumers  []ConsumerInfo
}

// ConsumerInfo describes a connected consumer.
type ConsumerInfo struct {
	ID        string
	Peer      Peer
	Total     int64
	SinceLast int64
	PerSecond int32
	Available int
	InFlight  int
	// Measured is how long the consumer took for its answers, where the settings want that.
	Measured []Measurement
}

// sample is what was counted at a time, to tell rates by.
type sample struct {
	at    time.Time
	total int64
}

// since returns how much came since the sample was taken, per second too, and takes a new one.
func (s *sample) since(total int64, now time.Time) (count int64, perSecond int32) {
	count = total - s.total
	if seconds := now.Sub(s.at).Seconds(); seconds > 0 {
		perSecond = int32(min(float64(count)/seconds, 1<<30))
	}
	*s = sample{now, total}
	return count, perSecond
}

// Info describes the group as it is now.
func (g *Group) Info() (info Info, err error) {
	if !g.ask(func() { info, err = g.describe() }) {
		return Info{}, ErrDropped
	}
	return info, err
}

func (g *Group) describe() (Info, error) {
	first, end, err := g.backing.Parked(g.ctx)
	if err != nil {
		return Info{}, err
	}
	last, err := g.backing.End(g.ctx)
	if err != nil {
		return Info{}, err
	}
	now := time.Now()
	info := Info{
		Settings: g.settings, Status: "Live", Checkpoint: g.track.marked, LastKnown: last,
		Total: g.total, Retries: len(g.waiting.retries), InFlight: g.inFlight,
		Parked: int64(end - first), // #nosec G115 -- a count
	}
	for _, m := range g.waiting.fresh {
		if m.live {
			info.Live++
		} else {
			info.Fresh++
		}
	}
	info.SinceLast, info.PerSecond = g.sampled.since(g.total, now)
	switch {
	case g.replay.pending():
		info.Status = "ReplayingParkedMessages"
	case !g.caughtUp:
		info.Status = "Behind"
	}
	for _, c := range g.chooser.consumers {
		one := ConsumerInfo{
			ID: c.id, Peer: c.peer, Total: c.total, Available: c.capacity - c.flying, InFlight: c.flying, Measured: c.latency.measure(),
		}
		one.SinceLast, one.PerSecond = c.sampled.since(c.total, now)
		info.Consumers = append(info.Consumers, one)
	}
	return info, nil
}
