package adapters

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore/reach"
	"carillon/projections/sessionlock"
)

const (
	// workerClass is the first half of the advisory locks by which workers show that they live.
	workerClass   = 0x43415249
	workerRenewal = 250 * time.Millisecond // before a lost lock is taken again
	workerBeat    = time.Second            // between two proofs that the lock is held
	workerProof   = 3 * time.Second        // how long a proof is good
	// absence is how long a worker must have been seen without its lock before others take what it holds. It may have
	// lost its session only, as all do when Postgres starts again, and be about to open another.
	absence = 3 * time.Second
)

// worker is a deliverer's identity in leases, and the lock that shows that it lives.
type worker struct {
	pool  *pgxpool.Pool
	id    int32
	clock func() time.Time
	reach *reach.Watch  // of the event store: without it no outcome can be recorded
	after time.Duration // absence, or what a test sets

	mu     sync.Mutex
	held   bool
	won    time.Time // when the lock was won; the zero time: never
	proven time.Time // when Postgres was asked on the session of the lock that it last answered
	losses int       // how often the lock was lost
	there  time.Time // the time by Postgres' clock, at proven
	absent map[int32]time.Time
}

func newWorker(pool *pgxpool.Pool, clock func() time.Time, store *reach.Watch) *worker {
	id := 1 + rand.Int32N(1<<31-2) //nolint:gosec // an identity, no secret
	return &worker{pool: pool, id: id, clock: clock, reach: store, after: absence, absent: map[int32]time.Time{}}
}

// stayAlive holds the lock until the context ends, and takes it again on a new session when it was lost. While the event
// store is unreachable it holds none: others take over what is leased to this worker.
func (w *worker) stayAlive(ctx context.Context, log *slog.Logger) {
	told := false
	for ctx.Err() == nil {
		reached, done := w.reach.While(ctx)
		won, err := w.hold(reached)
		done()
		switch {
		case ctx.Err() != nil:
			return
		case reach.Gone(reached):
			continue // once it is back
		}
		if won || !told {
			log.Warn("this worker's sign of life was lost: nothing is claimed until Postgres has it again", "worker", w.id, "error", err)
		}
		told = true
		select {
		case <-ctx.Done():
		case <-time.After(workerRenewal):
		}
	}
}

// hold takes the lock and proves now and then that it is there, until it is lost.
func (w *worker) hold(ctx context.Context) (won bool, err error) {
	session, err := sessionlock.Open(ctx, w.pool, "worker", nil)
	if err != nil {
		return false, err
	}
	defer session.Close()
	// Where a session of an earlier connection still has it, nobody will ever need that one again.
	err = session.Do(func(conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, `SELECT pg_terminate_backend(pid) FROM pg_locks WHERE locktype = 'advisory'
			AND classid = $1::int::oid AND objid = $2::int::oid AND objsubid = 2 AND granted AND pid <> pg_backend_pid()
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, workerClass, w.id)
		return err
	})
	if err != nil {
		return false, fmt.Errorf("end the worker's old session: %w", err)
	}
	if err := session.Lock(ctx, sessionlock.Pair(workerClass, w.id)); err != nil {
		return false, err
	}
	for {
		if err := w.prove(ctx, session); err != nil {
			w.lost()
			return true, err
		}
		beat := time.NewTimer(sessionlock.Until(time.Now(), workerBeat))
		select {
		case <-ctx.Done():
			beat.Stop()
			w.lost()
			return true, nil
		case <-session.Lost():
			beat.Stop()
			w.lost()
			return true, session.Err()
		case <-beat.C:
		}
	}
}

// prove asks Postgres on the session of the lock, and takes its time along.
func (w *worker) prove(ctx context.Context, session *sessionlock.Session) error {
	ctx, cancel := context.WithTimeout(ctx, workerProof)
	defer cancel()
	asked := time.Now()
	var there time.Time
	err := session.Do(func(conn *pgx.Conn) error {
		return conn.QueryRow(ctx, "SELECT clock_timestamp()").Scan(&there)
	})
	if err != nil {
		return fmt.Errorf("prove the lock: %w", err)
	}
	answered := time.Now()
	w.mu.Lock()
	defer w.mu.Unlock()
	there = there.Add(-answered.Sub(asked) / 2)
	if !w.held {
		w.held, w.won = true, answered
		clear(w.absent)
	}
	w.proven, w.there = asked, there
	return nil
}

func (w *worker) lost() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held = false
	w.losses++
}

// holding says whether the lock is held for sure, and how often it was lost before.
func (w *worker) holding() (losses int, sure bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.losses, w.held && time.Since(w.proven) < workerProof
}

// known says whether Postgres' clock is known.
func (w *worker) known() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	return !w.won.IsZero()
}

// now is the time by Postgres' clock. Leases are counted by it: the clocks of processes differ, and are stepped.
func (w *worker) now() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.there.IsZero() {
		return w.clock()
	}
	return w.there.Add(time.Since(w.proven))
}

// dead tells which of the holders don't live any more: they are without a lock for so long that they are not just about
// to take it again. Right after this worker has won its own nobody is dead, as then all may have lost theirs.
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
