package adapters

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	deliveryaggregate "carillon/aggregates/delivery"
	"carillon/command/delivery"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/sessionlock"
)

const (
	// leaseAge is how old a lease must be before this worker releases it as forgotten: newer deliveries may be on their
	// way into memory.
	leaseAge = 5 * time.Second
	// How long a claim waits for the read model: before anything may be claimed, and before what others held is freed.
	readyPatience = time.Second
	freePatience  = 50 * time.Millisecond
	// The search for deliveries planned too far ahead runs this often, or less often if it takes long.
	backPause = 10 * time.Second
	backRest  = 300
)

// DeliveryQueue is delivery.Queue on the read model. Its worker lives as long as it holds an advisory lock of its
// process's session: when the process is killed, the lock is gone and others take over its deliveries.
//
// The read model may be behind the event store. So before the first claim, after a failed one, and after the lock was
// lost, the read model has to reach the events recorded by then, and again before leases are taken back: else
// deliveries would be sent again although their outcomes are recorded.
type DeliveryQueue struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	worker *worker

	mu      sync.Mutex // one claim at a time
	claimer *deliveries.Claimer
	losses  int       // of the lock, that were seen
	back    time.Time // time of the next search for deliveries too far ahead
	sure    bool      // the read model had reached the head at the last of them
	claims  *projections.Settling
	next    time.Time // when something more is due, as the last look saw it; zero: nothing is planned

	resting  map[uuid.UUID]time.Duration // destinations that are left alone, as the last look saw it
	progress *projections.Progress
	locks    *sessionlock.Locks

	lost  *lost // leases of dead workers, while the read model is waited for; nil means none
	frees *projections.Settling

	forgotten []uuid.UUID // leases that this worker has forgotten, while the read model is waited for
	recovers  *projections.Settling
}

// lost are the leases of workers that were dead at a moment, and ended leases.
type lost struct {
	dead []int32
	at   time.Time
}

var _ delivery.Queue = (*DeliveryQueue)(nil)

// NewDeliveryQueue makes the queue of a worker with a new identity. now is the clock before Postgres was asked, which
// may be wrong.
func NewDeliveryQueue(runner *projections.Runner, now func() time.Time) *DeliveryQueue {
	settling := func() *projections.Settling { return runner.Settling(deliveries.ReadModel) }
	w := newWorker(runner.Locks, now, runner.Reach)
	return &DeliveryQueue{
		pool:     runner.Pool,
		log:      runner.Log,
		worker:   w,
		claimer:  deliveries.NewClaimer(runner.Pool, w.id),
		claims:   settling(),
		frees:    settling(),
		recovers: settling(),
		progress: runner.Progress,
		locks:    runner.Locks,
	}
}

// StayAlive holds the worker's lock until the context ends, and takes it again on a new session when it was lost.
func (q *DeliveryQueue) StayAlive(ctx context.Context, log *slog.Logger) {
	q.worker.stayAlive(ctx, log)
}

// Worker implements delivery.Queue.
func (q *DeliveryQueue) Worker() (id int32, known bool) { return q.worker.id, q.worker.known() }

// Now implements delivery.Queue.
func (q *DeliveryQueue) Now() time.Time { return q.worker.now() }

// Holding implements delivery.Queue.
func (q *DeliveryQueue) Holding() (losses int, sure bool) { return q.worker.holding() }

// Claim implements delivery.Queue.
func (q *DeliveryQueue) Claim(ctx context.Context, ask delivery.Ask) ([]delivery.Job, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if err := q.ready(ctx); err != nil {
		if errors.Is(err, delivery.ErrNotReady) { // new events are sent meanwhile, but not to resting destinations
			err = cmp.Or(q.findResting(ctx), err)
		}
		return nil, err
	}
	claimed, err := q.claim(ctx, ask)
	if err != nil {
		q.sure = false // it may have been carried out, and so may others that Postgres has forgotten
		q.claims.Again()
		return nil, err
	}
	return q.jobs(claimed), nil
}

// ready reports whether claims may be made: the worker's lock is held, and the read model knows what was recorded until
// the lock was won, until this process began, or until the last claim that failed.
func (q *DeliveryQueue) ready(ctx context.Context) error {
	losses, holding := q.worker.holding()
	if !holding {
		return delivery.ErrNotReady
	}
	if q.losses != losses {
		q.losses, q.sure, q.lost, q.forgotten = losses, false, nil, nil
		q.claims.Again()
	}
	if q.sure {
		return nil
	}
	if err := q.claims.Settle(ctx, readyPatience); err != nil {
		return notReady(err)
	}
	q.sure = true
	return nil
}

// notReady words it for the deliverer that the read model is behind.
func notReady(err error) error {
	if errors.Is(err, projections.ErrBehind) {
		return delivery.ErrNotReady
	}
	return err
}

// claim looks first, and claims where something may be due.
func (q *DeliveryQueue) claim(ctx context.Context, ask delivery.Ask) ([]deliveries.Claimed, error) {
	q.next = time.Time{}
	if err := q.bringBack(ctx, ask.Lease); err != nil {
		return nil, err
	}
	live, seen, err := q.look(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(live, q.worker.id) {
		return nil, delivery.ErrNotReady // Postgres has ended the session, and this process is yet to hear of it
	}
	freed, err := q.takeBack(ctx, seen.Holders, live, q.Now())
	if err != nil {
		return nil, err
	}
	if freed {
		if _, seen, err = q.look(ctx); err != nil {
			return nil, err
		}
	}
	q.next = seen.Next
	if ends := q.restEnds(q.Now()); !ends.IsZero() && (q.next.IsZero() || ends.Before(q.next)) {
		q.next = ends
	}
	if !seen.Due() {
		return nil, nil
	}
	for id := range q.resting {
		ask.Full = append(ask.Full, id)
	}
	claimed, err := q.claimer.Claim(ctx, deliveries.Ask(ask), seen)
	if again := q.claimer.Again(); !again.IsZero() && (q.next.IsZero() || again.Before(q.next)) {
		q.next = again
	}
	return claimed, err
}

// bringBack brings back what lies further ahead than its schedule allows, because a clock was ahead when it was
// planned.
func (q *DeliveryQueue) bringBack(ctx context.Context, lease time.Duration) error {
	began := time.Now()
	if began.Before(q.back) {
		return nil
	}
	moved, err := deliveries.BringBack(ctx, q.pool, q.Now(), lease)
	if err != nil {
		return err
	}
	q.back = began.Add(max(backPause, backRest*time.Since(began)))
	if moved > 0 {
		q.log.Warn("due times or leases lay too far ahead, as a clock was ahead; brought back", "deliveries", moved)
	}
	return nil
}

// look lists the workers that hold their locks, and says what is due.
func (q *DeliveryQueue) look(ctx context.Context) (live []int32, seen deliveries.Seen, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT objid::bigint::int FROM pg_locks
		WHERE locktype = 'advisory' AND classid = $1::int::oid AND objsubid = 1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, workerClass).
		Query(func(rows pgx.Rows) (err error) {
			live, err = pgx.CollectRows(rows, pgx.RowTo[int32])
			return err
		})
	q.lookResting(&batch)
	seen, err = deliveries.Look(ctx, q.pool, &batch, q.Now())
	return live, seen, err
}

// takeBack frees what dead workers hold, and leases that have ended. That is rare, and only then the read model has to
// know first what came of them.
func (q *DeliveryQueue) takeBack(
	ctx context.Context, holders []deliveries.Holder, live []int32, now time.Time,
) (freed bool, err error) {
	ended := false
	ids := make([]int32, len(holders))
	for i, h := range holders {
		ids[i] = h.Worker
		ended = ended || !h.Ends.After(now)
	}
	dead := q.worker.dead(ids, live)
	if len(dead) == 0 && !ended {
		q.lost = nil
		return false, nil
	}
	if q.lost == nil {
		q.lost = &lost{dead: dead, at: now}
		q.frees.Again()
	}
	if err := q.frees.Settle(ctx, freePatience); err != nil {
		if errors.Is(err, projections.ErrBehind) {
			return false, nil // free deliveries can be claimed all the same
		}
		return false, err
	}
	since := q.lost
	q.lost = nil
	dead = slices.DeleteFunc(dead, func(id int32) bool { return !slices.Contains(since.dead, id) })
	return true, deliveries.TakeBack(ctx, q.pool, dead, since.at)
}

// Recover implements delivery.Queue.
func (q *DeliveryQueue) Recover(ctx context.Context, lease time.Duration, known func(uuid.UUID) bool) (int, error) {
	q.mu.Lock()
	defer q.mu.Unlock()
	if _, holding := q.worker.holding(); !holding {
		return 0, nil
	}
	held, err := deliveries.Held(ctx, q.pool, q.worker.id, q.Now().Add(lease-leaseAge))
	if err != nil {
		return 0, err
	}
	held = slices.DeleteFunc(held, known)
	if len(held) == 0 {
		q.forgotten = nil
		return 0, nil
	}
	// They were attempted, and the read model has yet to hear of it, or they were forgotten.
	if q.forgotten == nil {
		q.forgotten = held
		q.recovers.Again()
	}
	if err := q.recovers.Settle(ctx, freePatience); err != nil {
		return 0, notReady(err)
	}
	held = slices.DeleteFunc(held, func(id uuid.UUID) bool { return !slices.Contains(q.forgotten, id) })
	q.forgotten = nil
	return len(held), deliveries.Release(ctx, q.pool, q.worker.id, held)
}

// jobs makes jobs of claimed rows. Those of one destination share their target, those of one event their body.
func (q *DeliveryQueue) jobs(claimed []deliveries.Claimed) []delivery.Job {
	bodies := map[*deliveries.Event]*delivery.Body{}
	jobs := make([]delivery.Job, len(claimed))
	for i, c := range claimed {
		jobs[i] = delivery.Job{
			ID:            c.ID,
			Destination:   c.Destination,
			Organization:  c.Organization,
			Body:          body(bodies, c.Event),
			Subscriptions: c.Subscriptions,
			Attempts:      c.Attempts,
			Replay:        c.Replay,
			LeasedUntil:   c.LeasedUntil,
			Losses:        q.losses,
		}
		if c.Replay == uuid.Nil { // then it is pending; a replay reads the status from the stream
			jobs[i].Known = &eventstore.Loaded[deliveryaggregate.State]{
				State:    deliveryaggregate.State{Attempts: c.Attempts, Automatic: c.Automatic},
				Revision: c.Revision,
			}
		}
	}
	return jobs
}

func body(made map[*deliveries.Event]*delivery.Body, e *deliveries.Event) *delivery.Body {
	if made[e] == nil {
		made[e] = delivery.NewBody(e.ID, e.Published, e.RecordedAt)
	}
	return made[e]
}

// NextDue implements delivery.Queue.
func (q *DeliveryQueue) NextDue() (at time.Time, planned bool) {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.next, !q.next.IsZero()
}

// NotifyDue implements delivery.Queue.
func (q *DeliveryQueue) NotifyDue() { projections.NotifyDue(q.locks, q.Now()) }

// Announce implements delivery.Queue. Without its lock a worker says nothing.
func (q *DeliveryQueue) Announce(c delivery.Capacity) {
	if _, holding := q.worker.holding(); holding {
		q.locks.Notify(capacities, announcement(q.worker.id, c))
	}
}

// Release implements delivery.Queue.
func (q *DeliveryQueue) Release(ctx context.Context, ids []uuid.UUID) error {
	return deliveries.Release(ctx, q.pool, q.worker.id, ids)
}
