// Package reach watches whether this process reaches something that it stands on, such as the event store.
//
// A process that is cut off from the event store alone keeps its Postgres session, and with it every lock that the
// session holds, so that nothing would be projected or delivered anywhere. Lock holders therefore work While the store
// is reached: they give their locks up when it is lost, and wait for no lock before it is back. Two processes that are
// both cut off wait both, and pass no lock to and fro.
package reach

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"carillon/eventstore/panics"
)

const (
	second    = time.Second     // between two looks, which all watches of a process take at the same moments
	maxSilent = 5               // looks in a row that find nothing heard, then it is lost
	patience  = 5 * time.Second // for one answer
)

// ErrLost is the cause by which contexts of While end.
var ErrLost = errors.New("unreachable")

// Watch knows whether something is reached. A nil Watch takes it for reached at all times.
type Watch struct {
	// Name names it in logs and errors.
	Name string
	// Ask asks for an answer, as cheaply as can be. It is called when nothing was heard for a second.
	Ask func(context.Context) error
	// Heard counts what came from there, answers to Ask apart. Optional.
	Heard func() uint64
	// Lost is called when it is lost. Optional.
	Lost func()
	// Beat is the time between two looks. Optional: a second.
	Beat time.Duration
	Log  *slog.Logger

	answers  atomic.Uint64 // to Ask
	asking   atomic.Bool
	mu       sync.Mutex
	answered chan struct{}   // wakes Run
	reached  context.Context // ends when it is lost; nil means reached since the beginning
	lose     context.CancelCauseFunc
	back     chan struct{} // closed when it is reached again; nil while it is
	since    time.Time     // it is lost
	failure  error         // of the last answer
}

// Run watches until the context ends. Looks are counted, not time: a process that was stopped for a while, and goes on,
// has missed nothing.
func (w *Watch) Run(ctx context.Context) {
	w.mu.Lock()
	w.init()
	w.mu.Unlock()
	var asks sync.WaitGroup
	defer asks.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	last, silent := w.count(), 0
	for {
		now := time.Now()
		timer := time.NewTimer(now.Truncate(w.beat()).Add(w.beat()).Sub(now))
		early := false
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-w.answered:
			timer.Stop()
			early = true
		}
		if count := w.count(); count != last {
			last, silent = count, 0
			w.find()
			continue
		}
		if early {
			continue
		}
		if silent++; silent == maxSilent {
			w.lost()
		}
		if w.asking.CompareAndSwap(false, true) {
			asks.Go(panics.Func("reach of "+w.Name, func() { w.ask(ctx) }))
		}
	}
}

func (w *Watch) beat() time.Duration { return cmp.Or(w.Beat, second) }

func (w *Watch) ask(ctx context.Context) {
	defer w.asking.Store(false)
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	err := w.Ask(ctx)
	w.mu.Lock()
	w.failure = err
	w.mu.Unlock()
	if err != nil {
		return
	}
	w.answers.Add(1)
	if w.Err() == nil {
		return // the next look is early enough
	}
	select {
	case w.answered <- struct{}{}:
	default:
	}
}

func (w *Watch) count() uint64 {
	n := w.answers.Load()
	if w.Heard != nil {
		n += w.Heard()
	}
	return n
}

// While returns a context that ends, by ErrLost, when it is lost. If it is lost already it waits until it is back, or
// until ctx ends, and so does the context returned.
func (w *Watch) While(ctx context.Context) (context.Context, context.CancelFunc) {
	if w == nil {
		return context.WithCancel(ctx)
	}
	for {
		w.mu.Lock()
		w.init()
		reached, back := w.reached, w.back
		w.mu.Unlock()
		if back == nil {
			during, cancel := context.WithCancelCause(ctx)
			stop := context.AfterFunc(reached, func() { cancel(ErrLost) })
			return during, func() { stop(); cancel(nil) }
		}
		select {
		case <-back:
		case <-ctx.Done():
			return context.WithCancel(ctx)
		}
	}
}

// Gone reports whether a context of While ended because it was lost.
func Gone(ctx context.Context) bool { return errors.Is(context.Cause(ctx), ErrLost) }

// LostError is the error of a lost connection.
type LostError struct {
	Name  string
	Since time.Time
	Cause error // of the last question; may be nil
}

// Error implements error.
func (e *LostError) Error() string {
	return fmt.Sprintf("%s %s since %s: %v", e.Name, ErrLost, e.Since.Format(time.RFC3339), e.Cause)
}

// Unwrap makes errors.Is find ErrLost and the cause.
func (e *LostError) Unwrap() []error { return []error{ErrLost, e.Cause} }

// Err returns a *LostError while it is lost.
func (w *Watch) Err() error {
	if w == nil {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.back == nil {
		return nil
	}
	return &LostError{Name: w.Name, Since: w.since.UTC(), Cause: w.failure}
}

// init is called with the mutex held.
func (w *Watch) init() {
	if w.reached == nil {
		w.reached, w.lose = context.WithCancelCause(context.Background())
		w.answered = make(chan struct{}, 1)
	}
}

func (w *Watch) lost() {
	w.mu.Lock()
	w.back, w.since = make(chan struct{}), time.Now().Add(-maxSilent*w.beat())
	w.lose(ErrLost)
	since, cause := w.since.UTC(), w.failure
	w.mu.Unlock()
	w.Log.Error("unreachable, locks given up until it is back", "what", w.Name, "since", since, "error", cause)
	if w.Lost != nil {
		w.Lost()
	}
}

func (w *Watch) find() {
	w.mu.Lock()
	back, since := w.back, w.since
	if back != nil {
		w.reached, w.lose = context.WithCancelCause(context.Background())
		w.back = nil
		close(back)
	}
	w.mu.Unlock()
	if back != nil {
		w.Log.Info("reachable again", "what", w.Name, "after", time.Since(since).Round(time.Millisecond))
	}
}
