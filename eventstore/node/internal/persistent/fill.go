package persistent

import (
	"context"
	"errors"
	"time"
)

// readable reports whether there may be more to read, and room for it. A group that nobody is connected to reads once
// what there is, a little of it, and then no more.
func (g *Group) readable() bool {
	room := maxWaitingBytes
	if len(g.chooser.consumers) == 0 {
		room = maxIdleBytes
	}
	return (!g.caughtUp || g.replay.pending() && len(g.chooser.consumers) > 0) &&
		g.waiting.len()+g.inFlight+len(g.parking) < int(max(g.settings.HistoryBuffer, g.settings.LiveBuffer)) &&
		g.waiting.bytes < room
}

// fill reads events until there are enough or no more for now: first what is replayed, then what is new.
func (g *Group) fill(now time.Time) {
	if now.Before(g.retryAt) {
		return
	}
	g.retryAt = time.Time{}
	for range maxReadsAtOnce {
		if !g.readable() {
			return
		}
		read := g.readFresh
		if g.replay.pending() {
			read = g.readReplay
		}
		if err := read(); err != nil {
			if !errors.Is(err, context.Canceled) {
				g.log.Warn("persistent subscription can't read", "error", err)
			}
			g.retryAt = now.Add(readRetryAfter)
			return
		}
	}
}

func (g *Group) readFresh() error {
	changed := g.backing.Changed()
	events, next, err := g.backing.Read(g.ctx, g.track.cursor, int(g.settings.ReadBatch))
	if err != nil {
		return err
	}
	if next == g.track.cursor {
		g.caughtUp, g.live, g.changed = true, true, changed
		return nil
	}
	for _, event := range events {
		m := &message{event: event, before: g.track.cursor, order: g.order, live: g.live}
		g.order++
		g.track.cursor = event.Next
		g.track.add(m)
		g.waiting.addFresh(m)
	}
	g.track.cursor = next
	return nil
}
