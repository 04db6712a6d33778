package adapters

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"carillon/eventstore/reach"
	"carillon/projections/sessionlock"
)

const (
	// workerClass is the upper half of the advisory locks by which workers show that they live; the lower half is their
	// id.
	workerClass = 0x43415249
	workerProof = 3 * time.Second // for how long an answer of Postgres proves that the lock is held
	// absence is how long a worker must have been seen without its lock before others take what it holds. It may have
	// lost its session only, as all do when Postgres starts again, and be about to open another.
	absence = 3 * time.Second
)

// worker is a deliverer's identity in leases, and the lock that shows that it lives.
type worker struct {
	id    int32
	locks *sessionlock.Locks
	clock func() time.Time
	reach *reach.Watch  // of the event store: without it no outcome can be recorded
	after time.Duration // absence, or what a test sets

	mu     sync.Mutex
	lock   *sessionlock.Lock // nil while it is not held
	won    time.Time         // when the lock was won; the zero time: never
	losses int               // how often the lock was lost
	absent map[int32]time.Time
}

func newWorker(locks *sessionlock.Locks, clock func() time.Time, store *reach.Watch) *worker {
	id := 1 + rand.Int32N(1<<31-2) //nolint:gosec // an identity, no secret
	return &worker{
		id:     id,
		locks:  locks,
		clock:  clock,
		reach:  store,
		after:  absence,
		absent: map[int32]time.Time{},
	}
}

// StayAlive holds the lock until the context ends, and takes it again when it was lost. While the event store is
// unreachable it holds none: others take over what is leased to this worker.
func (w *worker) StayAlive(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		reached, done := w.reach.While(ctx)
		lost := w.hold(reached)
		gone := reach.Gone(reached)
		done()
		if ctx.Err() == nil && !gone {
			log.Warn("worker lock lost, claiming paused", "worker", w.id, "error", lost)
		}
	}
}

// hold takes the lock and waits until it is lost, or the context ends.
func (w *worker) hold(ctx context.Context) error {
	lock, err := w.locks.Acquire(ctx, workerClass<<32|sessionlock.Key(w.id))
	if err != nil {
		return err
	}
	defer lock.Release()
	w.mu.Lock()
	w.lock, w.won = lock, time.Now()
	clear(w.absent)
	w.mu.Unlock()
	defer w.lost()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-lock.Lost():
		return lock.Err()
	}
}

func (w *worker) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.lock = nil
	w.losses++
}

// Holding implements sending.Queue: it reports whether the lock is held for sure, and how often it was lost before.
func (w *worker) Holding() (losses int, sure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.losses, w.lock != nil && w.lock.Sure(workerProof)
}

// Worker implements sending.Queue. It is known once Postgres' clock is, and the lock was won.
func (w *worker) Worker() (id int32, known bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.id, !w.won.IsZero()
}

// Now implements sending.Queue: it returns the time by Postgres' clock. Leases are counted by it, as the clocks of
// processes differ, and are stepped.
func (w *worker) Now() time.Time {
	if now, known := w.locks.Now(); known {
		return now
	}
	return w.clock()
}

// dead returns the dead holders: they are without a lock for too long to be about to take it again. Right after this
// worker has won its own none is dead, as then all may have lost theirs.
func (w *worker) dead(holders, live []int32) (dead []int32) {
	w.mu.Lock()
	defer w.mu.Unlock()
	now := time.Now()
	alive := map[int32]bool{w.id: true}
	for _, id := range live {
		alive[id] = true
	}
	absent := make(map[int32]time.Time, len(w.absent))
	for _, id := range holders {
		if alive[id] {
			continue
		}
		since, seen := w.absent[id]
		if !seen {
			since = now
		}
		absent[id] = since
		if now.Sub(since) >= w.after && now.Sub(w.won) >= w.after {
			dead = append(dead, id)
		}
	}
	w.absent = absent
	return dead
}
