package delivery

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
)

const (
	// fewAppends may be on their way where little happens.
	fewAppends = 8
	// outstandingBytes bounds the memory of what is planned and not appended yet. So far it is read ahead: what comes after
	// a flood is found in it.
	outstandingBytes = 16 << 20
	// togetherFor is how long a batch is waited for before the next is read.
	togetherFor = 50 * time.Millisecond
)

var errEnded = errors.New("ended before all was recorded")

// appends takes fan-outs into the store in the background. Organizations take turns: whoever publishes thousands at once
// waits behind himself only.
type appends struct {
	record func(context.Context, *fanOut) (done bool, err error)
	ctx    context.Context //nolint:containedctx // of all of them, until End
	cancel context.CancelFunc
	failed chan struct{}
	over   chan struct{} // closed by End

	mu sync.Mutex
	publishers
	open    map[uuid.UUID]*fanOut // by delivery: those that wait for a window to close, and are not recorded
	marks   []*mark               // oldest first; what is taken on now belongs to the last
	count   int                   // taken on and not recorded
	bytes   int
	room    chan struct{} // closed when there is room again; nil: nobody waits for it
	failure error
	ended   bool
	working sync.WaitGroup
}

// mark is a moment up to which somebody waits.
type mark struct {
	left int           // taken on since the mark before, and not recorded
	done chan struct{} // closed when nothing is left of this and of those before; nil as long as it is the last
}

func newAppends(record func(context.Context, *fanOut) (done bool, err error)) *appends {
	ctx, cancel := context.WithCancel(context.Background())
	return &appends{
		record: record, ctx: ctx, cancel: cancel, failed: make(chan struct{}), over: make(chan struct{}),
		publishers: publishers{of: map[uuid.UUID]*publisher{}}, open: map[uuid.UUID]*fanOut{}, marks: []*mark{{}},
	}
}

// idle says that little happens, so that whoever has planned a fan-out may as well append it.
func (a *appends) idle(f *fanOut) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count < fewAppends && len(a.olderOf(f)) == 0 && a.failure == nil
}

// add takes on a fan-out. It waits while too much is outstanding.
func (a *appends) add(ctx context.Context, f *fanOut) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.bytes >= outstandingBytes && a.failure == nil && !a.ended {
		if err := a.awaitRoom(ctx); err != nil {
			return err
		}
	}
	switch {
	case a.failure != nil:
		return a.failure
	case a.ended:
		return errEnded
	}
	p := a.come(f.publisher)
	if a.bytes >= outstandingBytes/2 && p.bytes*len(a.of) >= a.bytes/2 { // half of an equal part
		f.leave() // it is far from its turn: there is more to come than can wait here with its data
	}
	f.by, f.size, f.mark, f.older = p, f.weight(), a.marks[len(a.marks)-1], a.olderOf(f)
	f.mark.left++
	a.count++
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
	case <-a.failed:
	case <-a.over:
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
		a.working.Go(func() {
			for f := f; f != nil; {
				done, err := a.record(a.ctx, f)
				f = a.after(f, done, err)
			}
		})
	}
}

// after notes what came of a fan-out, and gives the one whose turn it is; nil: there is nothing more to do here.
func (a *appends) after(f *fanOut, done bool, err error) *fanOut {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.end(f)
	switch {
	case err != nil:
		a.fail(err)
	case done:
		a.settle(f)
	}
	a.leave(f.by)
	if a.ended || a.failure != nil {
		return nil
	}
	return a.next()
}

// settle forgets a fan-out that is recorded whole. The mutex is held.
func (a *appends) settle(f *fanOut) {
	f.mark.left--
	a.count--
	a.bytes -= f.size
	f.by.bytes -= f.size
	for len(a.marks) > 1 && a.marks[0].left == 0 {
		close(a.marks[0].done)
		a.marks = a.marks[1:]
	}
	if a.room != nil && a.bytes < outstandingBytes {
		close(a.room)
		a.room = nil
	}
}

// dispatched notes that the deliveries of a fan-out are recorded, and says whether those are that it supersedes. Where they
// are not it is begun again then: what is superseded before it is made would be made pending again.
func (a *appends) dispatched(f *fanOut) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	f.recorded = true
	if f.mark == nil { // nobody knows of it but whoever appends it
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
	if a.failure == nil && !a.ended {
		a.failure = err
		a.cancel()
		close(a.failed)
	}
}

// Failed implements eventstore.Deferring.
func (a *appends) Failed() <-chan struct{} { return a.failed }

// Err implements eventstore.Deferring.
func (a *appends) Err() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.failure
}

// Pending implements eventstore.Deferring.
func (a *appends) Pending() func(context.Context) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.count == 0 {
		return nil
	}
	last := a.marks[len(a.marks)-1]
	if last.left == 0 && len(a.marks) > 1 { // nothing was taken on since somebody asked before
		last = a.marks[len(a.marks)-2]
	}
	if last.done == nil {
		last.done = make(chan struct{})
		a.marks = append(a.marks, &mark{})
	}
	return func(ctx context.Context) error { return a.await(ctx, last.done) }
}

// together waits for what was taken on while all of it is on its way into the store: what is published meanwhile comes as
// one batch, whose dispatches share commits. Where something waits for its turn, or the store takes long, reading goes on.
func (a *appends) together(ctx context.Context) error {
	a.mu.Lock()
	waits := len(a.turns) > 0
	a.mu.Unlock()
	if waits {
		return a.Err()
	}
	pending := a.Pending()
	if pending == nil {
		return a.Err()
	}
	short, cancel := context.WithTimeout(ctx, togetherFor)
	defer cancel()
	if err := pending(short); err != nil && short.Err() == nil {
		return err
	}
	return ctx.Err()
}

func (a *appends) await(ctx context.Context, done <-chan struct{}) error {
	select {
	case <-done:
		return nil
	case <-a.failed:
		return a.Err()
	case <-a.over:
		return errEnded
	case <-ctx.Done():
		return ctx.Err()
	}
}

// End implements eventstore.Deferring.
func (a *appends) End() {
	a.mu.Lock()
	if !a.ended {
		a.ended = true
		a.cancel()
		close(a.over)
	}
	a.mu.Unlock()
	a.working.Wait()
}
