package persistent

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/node/internal/store"
)

// Group is a running persistent subscription.
type Group struct {
	settings Settings
	backing  Backing
	log      *slog.Logger

	mailbox chan func()
	ctx     context.Context
	cancel  context.CancelFunc
	stopped chan struct{}
	effects sync.WaitGroup

	// Owned by the group's goroutine.
	chooser   chooser
	waiting   waiting
	track     track
	deadlines deadlines
	replay    replay
	order     uint64
	inFlight  int
	caughtUp  bool
	behind    bool // there is more to read, but nobody to read it for
	live      bool // it has caught up once
	changed   <-chan struct{}
	retryAt   time.Time // after a failed read
	total     int64
	sampled   sample
	ending    bool

	parking    []rejection
	parkingNow bool
	saving     bool
}

const (
	mailboxSize = 256
	// maxWaitingBytes bounds what a group holds in memory, whatever its buffer sizes say.
	maxWaitingBytes = 16 << 20
	// maxIdleBytes is the same for a group without consumers.
	maxIdleBytes = 1 << 20
	// maxReadsAtOnce lets answers come in between while a filter finds nothing.
	maxReadsAtOnce = 16
	readRetryAfter = time.Second
	effectTimeout  = 30 * time.Second
)

// Run starts a group from a cursor on. It runs until Stop.
func Run(settings Settings, backing Backing, cursor uint64, log *slog.Logger) *Group {
	ctx, cancel := context.WithCancel(context.Background())
	g := &Group{
		settings: settings, backing: backing, log: log,
		mailbox: make(chan func(), mailboxSize), ctx: ctx, cancel: cancel, stopped: make(chan struct{}),
		chooser: chooser{strategy: settings.Strategy},
		track:   track{cursor: cursor, marked: cursor, markedAt: time.Now()},
		sampled: sample{at: time.Now()},
	}
	go g.run()
	return g
}

// Stop ends the group: its consumers, then with a last checkpoint the group itself.
func (g *Group) Stop() {
	g.cancel() // a read may be waiting for the disk
	g.do(func() { g.ending = true })
	<-g.stopped
}

// do has the group's goroutine carry something out, unless the group has stopped.
func (g *Group) do(f func()) {
	select {
	case g.mailbox <- f:
	case <-g.stopped:
	}
}

// ask is do that waits. It reports false where the group has stopped.
func (g *Group) ask(f func()) bool {
	done := make(chan struct{})
	g.do(func() {
		f()
		close(done)
	})
	select {
	case <-done:
		return true
	case <-g.stopped:
		return false
	}
}

// Connect adds a consumer with room for so many unanswered events.
func (g *Group) Connect(peer Peer, capacity int) (*Consumer, error) {
	consumer := &Consumer{
		group: g, id: uuid.NewString(), peer: peer, capacity: capacity, out: make(chan Delivery, capacity),
		ended: make(chan struct{}), inFlight: make(map[store.EventID]*message), sampled: sample{at: time.Now()},
	}
	err := ErrDropped
	g.ask(func() {
		limit := int(g.settings.MaxSubscribers)
		if limit > 0 && len(g.chooser.consumers) >= limit {
			err = ErrTooMany
			return
		}
		err = nil
		g.chooser.add(consumer)
		if g.behind {
			g.caughtUp, g.behind = false, false
		}
	})
	if err != nil {
		return nil, err
	}
	return consumer, nil
}

func (g *Group) run() {
	defer close(g.stopped)
	defer g.backing.Close()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for !g.ending {
		now := time.Now()
		g.expire(now)
		g.fill(now)
		g.dispatch(now)
		timer.Reset(g.nextWake(now))
		select {
		case f := <-g.mailbox:
			f()
			g.drain()
		case <-g.changed:
			g.changed = nil
			g.behind = len(g.chooser.consumers) == 0
			g.caughtUp = g.behind
		case <-timer.C:
		}
	}
	g.end()
}

// drain carries out what else has come in, so that many answers cost one round.
func (g *Group) drain() {
	for range mailboxSize {
		select {
		case f := <-g.mailbox:
			f()
		default:
			return
		}
	}
}

// end lets go of the consumers and saves how far the group has come.
func (g *Group) end() {
	for len(g.chooser.consumers) > 0 {
		g.remove(g.chooser.consumers[0], ErrDropped)
	}
	finished := make(chan struct{})
	go func() {
		g.effects.Wait()
		close(finished)
	}()
	for running := true; running; {
		select {
		case f := <-g.mailbox:
			f()
		case <-finished:
			running = false
		}
	}
	g.drain()
	if low := g.track.low(); low != g.track.marked {
		ctx, cancel := context.WithTimeout(context.Background(), effectTimeout)
		defer cancel()
		if err := g.backing.SaveCheckpoint(ctx, low); err != nil {
			g.log.Warn("persistent subscription ends without a checkpoint", "error", err)
		}
	}
}

// nextWake is how long nothing needs to be done by itself.
func (g *Group) nextWake(now time.Time) time.Duration {
	wake := time.Hour
	sooner := func(d time.Duration) {
		if d > 0 && d < wake {
			wake = d
		}
	}
	if deadline := g.deadlines.next(); !deadline.IsZero() {
		sooner(deadline.Sub(now))
	}
	if !g.retryAt.IsZero() {
		sooner(max(g.retryAt.Sub(now), time.Millisecond))
	}
	sooner(g.checkpoint(now))
	if g.readable() && g.retryAt.IsZero() {
		wake = 0 // a filter is on its way through the log
	}
	return wake
}

// expire takes back what consumers have had for too long.
func (g *Group) expire(now time.Time) {
	for _, m := range g.deadlines.expired(now) {
		m.consumer.drop(m)
		g.inFlight--
		g.requeue(m)
	}
}

// dispatch sends what can be sent.
func (g *Group) dispatch(now time.Time) {
	if len(g.chooser.consumers) == 0 {
		return
	}
	g.waiting.dispatch(func(m *message) (taken, more bool) {
		taken, more = g.chooser.offer(m)
		if taken {
			g.inFlight++
			g.total++
			m.sent = now
			if m.deadline = (time.Time{}); g.settings.MessageTimeout > 0 {
				m.deadline = now.Add(g.settings.MessageTimeout)
				g.deadlines.add(m)
			}
		}
		return taken, more
	})
}

// answered notes how long a consumer took, where the settings want that.
func (g *Group) answered(c *Consumer, m *message) {
	if g.settings.ExtraStatistics {
		c.latency.add(time.Since(m.sent))
	}
}

// complete notes that a message, no longer in flight, is done.
func (g *Group) complete(m *message) {
	g.inFlight--
	g.finish(m)
}

func (g *Group) finish(m *message) {
	if m.replay {
		g.dropReplayed(m)
	} else {
		g.track.finish(m)
	}
}

// retry sends a message, no longer in flight, once more, or parks it after too many times.
func (g *Group) retry(m *message) {
	g.inFlight--
	g.requeue(m)
}

func (g *Group) requeue(m *message) {
	if m.retries >= g.settings.MaxRetries {
		g.setAside(m, fmt.Sprintf(tooOften, g.settings.MaxRetries))
		return
	}
	m.retries++
	g.waiting.addRetry(m)
}

// remove ends a consumer's connection.
func (g *Group) remove(c *Consumer, err error) {
	if !g.chooser.remove(c) {
		return
	}
	for _, m := range c.inFlight {
		for m != nil {
			after := m.next
			m.consumer, m.next = nil, nil
			g.retry(m)
			m = after
		}
	}
	c.inFlight, c.flying = map[store.EventID]*message{}, 0
	c.err = err
	close(c.ended)
}

// checkpoint saves how far everything is done, if it is time. It returns when to ask again; 0 is not by itself.
func (g *Group) checkpoint(now time.Time) time.Duration {
	if g.saving {
		return 0
	}
	due, wait := g.track.due(g.settings, now)
	if !due {
		return wait
	}
	before := g.track
	cursor := g.track.mark(now)
	g.saving = true
	g.effect(func(ctx context.Context) error { return g.backing.SaveCheckpoint(ctx, cursor) }, func(err error) {
		g.saving = false
		if err != nil {
			g.log.Warn("persistent subscription checkpoint failed", "error", err)
			g.track.marked = before.marked
			g.track.done += before.done
		}
	})
	return 0
}

// effect does something slow beside the group, and then goes on in the group. A group that is ending starts nothing
// more: what it would have done comes again when it next runs.
func (g *Group) effect(work func(context.Context) error, then func(error)) {
	if g.ending {
		return
	}
	g.effects.Add(1)
	go func() {
		defer g.effects.Done()
		// Not the group's context: what has begun when it stops should still succeed.
		ctx, cancel := context.WithTimeout(context.WithoutCancel(g.ctx), effectTimeout)
		defer cancel()
		err := work(ctx)
		g.do(func() { then(err) })
	}()
}
