package dispatching

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/eventstore"
	"carillon/eventstore/panics"
)

const (
	// inlineAppendLimit is the number of appends in flight below which the reader appends by itself.
	inlineAppendLimit = 8
	// outstandingBytes bounds the memory of planned fan-outs that are not appended yet. The reader gets this far
	// ahead: events behind a flood are found within it.
	outstandingBytes = 16 << 20
)

var errEnded = errors.New("ended before all was recorded")

// appends takes fan-outs into the store in the background. Organizations take turns: one that publishes thousands
// at once delays only itself.
type appends struct {
	record func(context.Context, *fanOut) (done bool, err error)
	store  eventstore.Store
	ctx    context.Context //nolint:containedctx // of all of them, until one fails, or End
	cancel context.CancelCauseFunc
	failed chan struct{}

	mu sync.Mutex
	publishers
	open    map[uuid.UUID]*fanOut      // by delivery: those that wait for a window to close, and are not recorded
	left    map[chan struct{}]struct{} // done of those taken on and not recorded
	bytes   int                        // of those
	room    chan struct{}              // closed when there is room again; nil if no caller waits
	newest  place                      // of the dispatches that are recorded and may not be durable yet; zero if none
	working sync.WaitGroup
}

// place is where a dispatch was recorded.
type place struct {
	id uuid.UUID
	at eventstore.Position
}

func newAppends(store eventstore.Store, record func(context.Context, *fanOut) (done bool, err error)) *appends {
	ctx, cancel := context.WithCancelCause(context.Background())
	return &appends{
		store:      store,
		record:     record,
		ctx:        ctx,
		cancel:     cancel,
		failed:     make(chan struct{}),
		publishers: publishers{of: map[uuid.UUID]*publisher{}},
		open:       map[uuid.UUID]*fanOut{},
		left:       map[chan struct{}]struct{}{},
	}
}

// idle reports whether the load is low, so that the caller may append its fan-out itself.
func (a *appends) idle(f *fanOut) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.left) < inlineAppendLimit && len(a.olderOf(f)) == 0 && a.ctx.Err() == nil
}

// add takes on a fan-out. It waits while too much is outstanding.
func (a *appends) add(ctx context.Context, f *fanOut) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes >= outstandingBytes && a.ctx.Err() == nil {
		if err := a.awaitRoom(ctx); err != nil {
			return err
		}
	}
	if a.ctx.Err() != nil {
		return context.Cause(a.ctx) //nolint:contextcheck // why all of them end
	}
	p := a.come(f.publisher)
	if a.bytes >= outstandingBytes/2 && p.bytes*len(a.of) >= a.bytes/2 { // half of an equal part
		f.leave() // it is far from its turn: there is more to come than can wait here with its data
	}
	f.by, f.size, f.done, f.older = p, f.weight(), make(chan struct{}), a.olderOf(f)
	a.left[f.done] = struct{}{}
	a.bytes += f.size
	p.bytes += f.size
	for _, s := range f.scheduled {
		if !s.NotBefore.IsZero() {
			a.open[f.delivery(s)] = f
		}
	}
	a.wait(f)
	a.begin()
	return nil
}

func (a *appends) awaitRoom(ctx context.Context) error {
	if a.room == nil {
		a.room = make(chan struct{})
	}
	room := a.room
	a.mu.Unlock()
	defer a.mu.Lock()
	select {
	case <-room:
	case <-a.ctx.Done():
	case <-ctx.Done():
		return ctx.Err()
	}
	return nil
}

// olderOf lists those that a fan-out supersedes and that are not recorded. The mutex is held.
func (a *appends) olderOf(f *fanOut) (older []*fanOut) {
	if len(a.open) == 0 {
		return nil
	}
	for _, s := range f.scheduled {
		if o := a.open[s.Supersedes]; o != nil && o != f && !slices.Contains(older, o) {
			older = append(older, o)
		}
	}
	return older
}

// begin appends what may be begun. The mutex is held.
func (a *appends) begin() {
	for f := a.next(); f != nil; f = a.next() {
		a.working.Go(panics.Func("dispatcher", func() {
			if err := panics.Catch("dispatcher", func() error { a.work(f); return nil }); err != nil {
				a.mu.Lock() // what is counted may be wrong: the consumer starts again
				defer a.mu.Unlock()
				a.fail(err)
			}
		}))
	}
}

// work records a fan-out, and those that are next in turn.
func (a *appends) work(f *fanOut) {
	for f != nil {
		done := false
		err := panics.Catch("dispatcher", func() (err error) {
			done, err = a.record(a.ctx, f)
			return err
		})
		f = a.after(f, done, err)
	}
}

// after records the outcome of a fan-out, and returns the next in turn; nil means none.
func (a *appends) after(f *fanOut, done bool, err error) *fanOut {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(f)
	switch {
	case err != nil:
		a.fail(err)
	case done:
		a.finish(f)
	}
	a.leave(f.by)
	if a.ctx.Err() != nil {
		return nil
	}
	return a.next()
}

// finish forgets a fan-out that is recorded whole. The mutex is held.
func (a *appends) finish(f *fanOut) {
	delete(a.left, f.done)
	close(f.done)
	a.bytes -= f.size
	f.by.bytes -= f.size
	if a.room != nil && a.bytes < outstandingBytes {
		close(a.room)
		a.room = nil
	}
}

// dispatched notes that the deliveries of a fan-out are recorded, and reports whether those that it supersedes are
// recorded too. If not, it is begun again then: a delivery that is superseded before it exists would become pending
// again.
func (a *appends) dispatched(f *fanOut) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.recorded = true
	if a.newest.at.Before(f.recordedAt) {
		a.newest = place{f.id, f.recordedAt}
	}
	if f.done == nil { // known only to its own caller
		return true
	}
	for _, s := range f.scheduled {
		if !s.NotBefore.IsZero() && a.open[f.delivery(s)] == f {
			delete(a.open, f.delivery(s))
		}
	}
	for _, follower := range f.followers {
		if follower.waits() == 0 {
			a.wait(follower)
		}
	}
	f.followers = nil
	a.begin()
	f.waits()
	for _, older := range f.older {
		older.followers = append(older.followers, f)
	}
	return len(f.older) == 0
}

// waits counts those of the older ones that are still not recorded.
func (f *fanOut) waits() int {
	f.older = slices.DeleteFunc(f.older, func(o *fanOut) bool { return o.recorded })
	return len(f.older)
}

// fail ends it all. The mutex is held.
func (a *appends) fail(err error) {
	if a.ctx.Err() == nil {
		a.cancel(err)
		close(a.failed)
	}
}

// Failed implements eventstore.Deferred.
func (a *appends) Failed() <-chan struct{} { return a.failed }

// Err implements eventstore.Deferred.
func (a *appends) Err() error {
	if err := context.Cause(a.ctx); !errors.Is(err, errEnded) {
		return err
	}
	return nil
}

// Pending implements eventstore.Deferred.
func (a *appends) Pending() func(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.left) == 0 && a.newest == (place{}) {
		return nil
	}
	left := slices.Collect(maps.Keys(a.left))
	return func(ctx context.Context) error {
		for _, done := range left {
			if err := a.await(ctx, done); err != nil {
				return err
			}
		}
		return a.sync(ctx)
	}
}

// sync waits until all dispatches that are recorded by now are durable: those before the newest are with it, and a
// reader of its stream waits for that.
func (a *appends) sync(ctx context.Context) error {
	a.mu.Lock()
	newest := a.newest
	a.mu.Unlock()
	if newest == (place{}) {
		return nil
	}
	for _, err := range a.store.Read(ctx, dispatch.Aggregate.Stream(newest.id), 0) {
		if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) { // it is retired
			return fmt.Errorf("dispatch %s: %w", newest.id, err)
		}
		break
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.newest == newest {
		a.newest = place{}
	}
	return nil
}

func (a *appends) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-a.ctx.Done():
		return context.Cause(a.ctx) //nolint:contextcheck // why all of them end
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End implements eventstore.Deferred.
func (a *appends) End() {
	a.mu.Lock() // nothing is begun after it
	a.cancel(errEnded)
	a.mu.Unlock()
	a.working.Wait()
}
