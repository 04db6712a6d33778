package persistent

import "context"

// replay is what is being sent again of what was parked. It is only dropped from the parked stream once it is done,
// so that nothing is lost if the node ends before.
type replay struct {
	next, end uint64 // still to be read
	track     track
	dropping  bool
	dropped   uint64
}

func (r *replay) pending() bool { return r.next < r.end }

// Replay sends parked events again: the first stopAt of them, or all where stopAt is 0.
func (g *Group) Replay(stopAt uint64) error {
	var err error
	if !g.ask(func() { err = g.beginReplay(stopAt) }) {
		return ErrDropped
	}
	return err
}

func (g *Group) beginReplay(stopAt uint64) error {
	first, end, err := g.backing.Parked(g.ctx)
	if err != nil {
		return err
	}
	first = max(first, g.replay.end)
	if stopAt > 0 && end > first+stopAt {
		end = first + stopAt
	}
	if first >= end {
		return nil
	}
	if !g.replay.pending() {
		g.replay.next = first
	}
	if len(g.replay.track.messages) == 0 {
		g.replay.track.cursor = g.replay.next
	}
	g.replay.end = end
	return nil
}

func (g *Group) readReplay() error {
	events, next, err := g.backing.ReadParked(g.ctx, g.replay.next, g.replay.end, int(g.settings.ReadBatch))
	if err != nil {
		return err
	}
	for _, event := range events {
		m := &message{event: event, before: g.replay.next, order: g.order, replay: true}
		g.order++
		g.replay.next = event.Next
		g.replay.track.add(m)
		g.waiting.addRetry(m)
	}
	g.replay.next = max(next, g.replay.next)
	g.replay.track.cursor = g.replay.next
	g.dropDone()
	return nil
}

func (g *Group) dropReplayed(m *message) {
	g.replay.track.finish(m)
	g.dropDone()
}

// dropDone forgets those parked events whose replay is done.
func (g *Group) dropDone() {
	before := g.replay.track.low()
	if g.replay.dropping || before <= g.replay.dropped {
		return
	}
	g.replay.dropping = true
	g.effect(func(ctx context.Context) error { return g.backing.DropParked(ctx, before) }, func(err error) {
		g.replay.dropping = false
		if err != nil {
			g.log.Warn("replayed events stay parked", "error", err)
			return
		}
		g.replay.dropped = before
		g.dropDone()
	})
}

// park sets a message, no longer in flight, aside.
func (g *Group) park(m *message, reason string) {
	g.inFlight--
	g.setAside(m, reason)
}

func (g *Group) setAside(m *message, reason string) {
	g.parking = append(g.parking, rejection{m, reason})
	g.parkNext()
}

// rejection is a message on its way to be parked.
type rejection struct {
	message *message
	reason  string
}

// maxParkedAtOnce bounds one write of parked events.
const maxParkedAtOnce = 256

// parkNext parks what waits for it, one write after the other, so that parked events keep their order.
func (g *Group) parkNext() {
	if g.parkingNow || len(g.parking) == 0 {
		return
	}
	g.parkingNow = true
	now := g.parking[:min(len(g.parking), maxParkedAtOnce)]
	rejected := make([]Rejected, len(now))
	for i, r := range now {
		rejected[i] = Rejected{Event: r.message.event, Reason: r.reason}
	}
	g.effect(func(ctx context.Context) error { return g.backing.Park(ctx, rejected) }, func(err error) {
		g.parkingNow = false
		g.parking = g.parking[len(now):]
		if err != nil {
			g.log.Warn("events can't be parked; they are sent again", "error", err)
		}
		for _, r := range now {
			if err != nil {
				g.waiting.addRetry(r.message)
			} else {
				g.finish(r.message)
			}
		}
		g.parkNext()
	})
}
