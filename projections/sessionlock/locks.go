// Package sessionlock holds the Postgres advisory locks of a process, and receives notifications, on one session that
// shows that the process is alive.
//
// A lock of a session is gone when the session is. Postgres itself ends a session that is silent for 7 s, so that the
// process may be stopped, or lose its power or its network: the session is never that quiet, because it asks for the
// time every second. A process that waits for a lock also ends the session of a holder that is 10 s late, which covers
// cases that the limits of Postgres don't, such as an answer that the holder does not read. A late holder finds its
// session gone.
//
// A lock does not fence what its holder writes on other connections: that compares an epoch, which the next holder
// moves before it does anything else (see package projections).
package sessionlock

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore/panics"
)

var (
	// ErrLost means that the lock is over, because its session is, or because it was released.
	ErrLost = errors.New("the lock is lost")
	// ErrHeld means that someone else holds the lock.
	ErrHeld = errors.New("the lock is held")
)

// Locks are the locks of one process. They share a session, which is opened when the first one is asked for, and again
// whenever it was lost.
type Locks struct {
	config *pgx.ConnConfig
	log    *slog.Logger

	mu        sync.Mutex
	ended     chan struct{} // closed when the session is closed permanently; nil means it was never opened
	stop      context.CancelFunc
	closed    bool
	interrupt context.CancelFunc // ends the wait for a notification; nil means nothing waits
	woken     bool
	waiting   map[Key][]*waiter
	held      map[Key]*Lock
	released  []*Lock
	channels  map[string]func(payload string)
	pending   []notification
	asked     time.Time // when Postgres was asked for the time that it last answered
	there     time.Time // the time by Postgres' clock, at asked
}

// waiter waits for a lock.
type waiter struct {
	once    bool // one attempt
	tried   bool
	granted *Lock
	failed  error
	done    chan struct{} // closed when one of them is set
}

func (w *waiter) is(other *waiter) bool { return w == other }

// New returns the locks of a process. config is the address of the session: it must lead to Postgres itself, not
// through a pooler, where each transaction has another session.
func New(config *pgx.ConnConfig, log *slog.Logger) *Locks {
	return &Locks{
		config:   config.Copy(),
		log:      log,
		waiting:  map[Key][]*waiter{},
		held:     map[Key]*Lock{},
		channels: map[string]func(string){},
	}
}

// Open opens the session, and returns why it can't be opened. Optional: otherwise the first lock opens it, and failures
// are logged and retried.
func (l *Locks) Open(ctx context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended != nil || l.closed {
		return nil
	}
	first, err := l.connect(ctx, backend{})
	if err != nil {
		return err
	}
	l.start(first)
	return nil
}

// start runs the session. The mutex is held.
func (l *Locks) start(first *session) {
	ctx, cancel := context.WithCancel(context.Background())
	l.stop, l.ended = cancel, make(chan struct{})
	go func(ended chan<- struct{}) {
		defer close(ended)
		panics.Loop(ctx, part, func(ctx context.Context) {
			given := first
			first = nil
			l.run(ctx, given)
		})()
	}(l.ended)
}

// Close ends the session, and all locks with it.
func (l *Locks) Close() {
	l.mu.Lock()
	l.closed = true
	ended, stop := l.ended, l.stop
	l.mu.Unlock()
	if ended != nil {
		stop()
		<-ended
	}
	l.lose(fmt.Errorf("%w: closed", ErrLost), true)
}

// Acquire waits until a lock is free, and takes it. Two holders in one process exclude each other, too.
func (l *Locks) Acquire(ctx context.Context, key Key) (*Lock, error) {
	return l.acquire(ctx, key, false)
}

// TryAcquire takes a lock, or fails with ErrHeld.
func (l *Locks) TryAcquire(ctx context.Context, key Key) (*Lock, error) {
	return l.acquire(ctx, key, true)
}

func (l *Locks) acquire(ctx context.Context, key Key, once bool) (*Lock, error) {
	w := &waiter{once: once, done: make(chan struct{})}
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil, fmt.Errorf("%w: closed", ErrLost)
	}
	if l.ended == nil {
		l.start(nil)
	}
	l.waiting[key] = append(l.waiting[key], w)
	l.wake()
	l.mu.Unlock()
	select {
	case <-w.done:
		return w.granted, w.failed
	case <-ctx.Done():
	}
	l.mu.Lock()
	l.forget(key, w.is)
	l.mu.Unlock()
	if w.granted != nil {
		w.granted.Release()
	}
	return nil, ctx.Err()
}

// forget removes the waiters that match, in place: no caller may range over the list. The mutex is held.
func (l *Locks) forget(key Key, matches func(*waiter) bool) {
	l.waiting[key] = slices.DeleteFunc(l.waiting[key], matches)
	if len(l.waiting[key]) == 0 {
		delete(l.waiting, key)
	}
}

// Now returns the time by Postgres' clock; known is false before Postgres has answered.
func (l *Locks) Now() (now time.Time, known bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.asked.IsZero() {
		return time.Time{}, false
	}
	return l.there.Add(time.Since(l.asked)), true
}

// wake ends the wait for a notification. The mutex is held.
func (l *Locks) wake() {
	l.woken = true
	if l.interrupt != nil {
		l.interrupt()
	}
}

// lose ends all locks. Those who wait for one go on to wait for the next session, unless they made one attempt or no
// session will follow.
func (l *Locks) lose(cause error, last bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, lock := range l.held {
		lock.end(cause)
	}
	clear(l.held)
	for _, lock := range l.released {
		close(lock.unlocked)
	}
	l.released = nil
	for key := range l.waiting {
		l.fail(key, cause, func(w *waiter) bool { return w.once || last })
	}
}

// fail ends the wait of the waiters that match. The mutex is held.
func (l *Locks) fail(key Key, cause error, matches func(*waiter) bool) {
	l.forget(key, func(w *waiter) bool {
		if !matches(w) {
			return false
		}
		w.failed = cause
		close(w.done)
		return true
	})
}

// Lock is a lock that is held.
type Lock struct {
	locks    *Locks
	key      Key
	session  *session
	lost     chan struct{}
	cause    error         // why it was lost; read after lost is closed
	unlocked chan struct{} // closed when Postgres has it back
}

// Lost is closed when the lock is over: Postgres ended the session, or can't be reached, or it was released.
func (k *Lock) Lost() <-chan struct{} { return k.lost }

// Err returns why the lock is over; nil while it is held.
func (k *Lock) Err() error {
	select {
	case <-k.lost:
		return k.cause
	default:
		return nil
	}
}

// Sure reports whether the lock is held and Postgres has answered on its session within a time.
func (k *Lock) Sure(within time.Duration) bool {
	k.locks.mu.Lock()
	defer k.locks.mu.Unlock()
	return k.Err() == nil && time.Since(k.session.proven) < within
}

// While returns a context that ends when the lock is lost.
func (k *Lock) While(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	go panics.Func(part, func() {
		select {
		case <-k.lost:
			cancel(k.cause)
		case <-ctx.Done():
		}
	})()
	return ctx, func() { cancel(context.Canceled) }
}

// Release unlocks, and waits until others can take it.
func (k *Lock) Release() {
	l := k.locks
	l.mu.Lock()
	if k.Err() != nil {
		l.mu.Unlock()
		return
	}
	delete(l.held, k.key)
	k.end(fmt.Errorf("%w: released", ErrLost))
	l.released = append(l.released, k)
	l.wake()
	l.mu.Unlock()
	<-k.unlocked
}

func (k *Lock) end(cause error) {
	k.cause = cause
	close(k.lost)
}
