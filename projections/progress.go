package projections

import (
	"context"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
)

// awaitPoll is how often a process asks Postgres for the checkpoint of a projection that runs in another process.
const awaitPoll = 5 * time.Millisecond

// Progress knows how far each consumer has come, so that a handler can wait until a write is visible. Consumers of this
// process report directly; for others it reads their checkpoints, and notifies their process that it waits.
type Progress struct {
	pool    *pgxpool.Pool
	mu      sync.Mutex
	here    map[string]running
	failing map[string]failure
	changed chan struct{} // closed and replaced at each change
	waiting map[string]*waiters
	heard   map[string]func() // see OnNotified
}

// running is a consumer of this process.
type running struct {
	at       eventstore.Position
	deferred eventstore.Deferred // Optional: work that follows from processed events and may be behind.
	save     func()              // commits what it has seen; nil means it does so whenever it has seen something
}

// failure is the last one of a consumer of this process, since when nothing was processed.
type failure struct {
	cause error
	at    time.Time
}

// waiters are those who wait for one consumer.
type waiters struct {
	n      int
	to     eventstore.Position // it has to be there soon, although no caller waits
	urgent chan struct{}       // closed while it is in a hurry
	closed bool
}

// NewProgress makes an empty one.
func NewProgress(pool *pgxpool.Pool) *Progress {
	return &Progress{
		pool:    pool,
		here:    map[string]running{},
		failing: map[string]failure{},
		changed: make(chan struct{}),
		waiting: map[string]*waiters{},
		heard:   map[string]func(){},
	}
}

// begin notes that a consumer runs here from now on.
func (p *Progress) begin(name string, c running) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.here[name] = c
	p.notify(name)
}

// save lets a consumer of this process commit what it has seen.
func (p *Progress) save(name string) {
	p.mu.Lock()
	save := p.here[name].save
	p.mu.Unlock()
	if save != nil {
		save()
	}
}

func (p *Progress) set(name string, to eventstore.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := p.here[name]
	c.at = to
	p.here[name] = c
	delete(p.failing, name)
	p.notify(name)
}

// failed notes what interrupted a consumer of this process.
func (p *Progress) failed(name string, cause error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.failing[name] = failure{cause, time.Now()}
}

// Failing returns what interrupts a consumer of this process at each start, before it has processed anything. It is nil
// for one that goes on, and for one of another process.
func (p *Progress) Failing(name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	last, failing := p.failing[name]
	if !failing || time.Since(last.at) > 2*maxPause { // it has run meanwhile
		return nil
	}
	return last.cause
}

// notify wakes the callers that wait for a consumer. The mutex is held.
func (p *Progress) notify(name string) {
	p.updateUrgency(name)
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *Progress) lost(name string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.here, name)
	p.updateUrgency(name)
}

func (p *Progress) get(name string) (at eventstore.Position, here bool, changed <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	c, here := p.here[name]
	return c.at, here, p.changed
}

// Await waits until each named projection has applied the event at a position. It reports false when the context
// ended first: the write is safe all the same, only not visible yet.
func (p *Progress) Await(ctx context.Context, to eventstore.Position, names ...string) bool {
	for _, name := range names {
		if !p.await(ctx, to, name) {
			return false
		}
	}
	return true
}

// AwaitRecorded waits until a process manager has dealt with the event at a position and all is recorded that follows
// from it and from those before; Await says only that it has taken it on. It reports false when the context ended
// first.
func (p *Progress) AwaitRecorded(ctx context.Context, to eventstore.Position, name string) bool {
	for p.await(ctx, to, name) {
		p.mu.Lock()
		c, here := p.here[name]
		p.mu.Unlock()
		if !here || c.at.Before(to) { // it ended just now; its checkpoint covers recorded work only
			if !p.Stored(ctx, name).Before(to) {
				return true
			}
			continue
		}
		if c.deferred == nil {
			return true
		}
		pending := c.deferred.Pending()
		if pending == nil || pending(ctx) == nil {
			return true
		}
		if ctx.Err() != nil {
			return false
		}
		select { // it is about to end
		case <-ctx.Done():
		case <-time.After(awaitPoll):
		}
	}
	return false
}

func (p *Progress) await(ctx context.Context, to eventstore.Position, name string) bool {
	if at, here, _ := p.get(name); here && !at.Before(to) {
		return true // without any hurry
	}
	p.addWaiters(name, 1)
	defer p.addWaiters(name, -1)
	asked := false
	for {
		at, here, changed := p.get(name)
		var poll <-chan time.Time
		if !here {
			at = p.Stored(ctx, name)
			poll = time.After(awaitPoll)
		}
		if !at.Before(to) {
			return true
		}
		if !here && !asked {
			p.ask(ctx, to, name)
			asked = true
		}
		select {
		case <-ctx.Done():
			return false
		case <-changed:
		case <-poll:
		}
	}
}

// addWaiters counts who waits for a consumer of this process.
func (p *Progress) addWaiters(name string, more int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.waitersOf(name).n += more
	p.updateUrgency(name)
}

// Hurry lets a consumer of this process come to a position without delay. It waits for nothing.
func (p *Progress) Hurry(name string, to eventstore.Position) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if w := p.waitersOf(name); w.to.Before(to) {
		w.to = to
	}
	p.updateUrgency(name)
}

// updateUrgency opens or closes what a consumer sees of its waiters. The mutex is held.
func (p *Progress) updateUrgency(name string) {
	w := p.waitersOf(name)
	c, here := p.here[name]
	switch urgent := w.n > 0 || here && c.at.Before(w.to); {
	case urgent && !w.closed:
		close(w.urgent)
		w.closed = true
	case !urgent && w.closed:
		w.urgent, w.closed = make(chan struct{}), false
	}
}

// urgent returns a channel that is closed while a caller waits for a consumer.
func (p *Progress) urgent(name string) <-chan struct{} {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.waitersOf(name).urgent
}

func (p *Progress) waitersOf(name string) *waiters {
	w := p.waiting[name]
	if w == nil {
		w = &waiters{urgent: make(chan struct{})}
		p.waiting[name] = w
	}
	return w
}

// Stored returns the checkpoint of a consumer: all is recorded that follows from the events up to it. It is Start if
// there is none, or it can't be read: waiting is bounded by the caller.
func (p *Progress) Stored(ctx context.Context, name string) eventstore.Position {
	c, _, _ := settledCheckpoint(ctx, p.pool, name)
	return c.position
}
