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

	"carillon/command/delivery/schedule"
	"carillon/command/delivery/sending"
	"carillon/projections"
	"carillon/projections/deliveries"
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

// DeliveryQueue is sending.Queue on the read model. Its worker lives as long as it holds an advisory lock of its
// process's session: when the process is killed, the lock is gone and others take over its deliveries.
//
// The read model may be behind the event store. So before the first claim, after a failed one, and after the lock was
// lost, the read model has to reach the events recorded by then, and again before leases are taken back: else
// deliveries would be sent again although their outcomes are recorded.
type DeliveryQueue struct {
	*worker

	pool *pgxpool.Pool
	log  *slog.Logger

	claiming   sync.Mutex // one claim at a time
	claimer    *deliveries.Claimer
	lossesSeen int       // of the lock
	back       time.Time // time of the next search for deliveries too far ahead
	sure       bool      // the read model had reached the head at the last of them
	claims     *projections.Wait
	next       time.Time // when something more is due, as the last look saw it; zero: nothing is planned

	resting  map[uuid.UUID]time.Duration // destinations that are left alone, as the last look saw it
	progress *projections.Progress

	freeing *ownerless // leases of dead workers, while the read model is waited for; nil means none
	frees   *projections.Wait

	forgotten []uuid.UUID // leases that this worker has forgotten, while the read model is waited for
	recovers  *projections.Wait
}

// ownerless are the leases of workers that were dead at a moment, and ended leases.
type ownerless struct {
	dead []int32
	at   time.Time
}

var _ sending.Queue = (*DeliveryQueue)(nil)

// NewDeliveryQueue makes the queue of a worker with a new identity. now is the clock before Postgres was asked, which
// may be wrong.
func NewDeliveryQueue(runner *projections.Runner, now func() time.Time) *DeliveryQueue {
	newest := func() *projections.Wait { return runner.Wait(deliveries.ReadModel) }
	w := newWorker(runner.Locks, now, runner.Reach)
	return &DeliveryQueue{
		pool:     runner.Pool,
		log:      runner.Log,
		worker:   w,
		claimer:  deliveries.NewClaimer(runner.Pool, w.id),
		claims:   newest(),
		frees:    newest(),
		recovers: newest(),
		progress: runner.Progress,
	}
}

// Claim implements sending.Queue.
func (q *DeliveryQueue) Claim(
	ctx context.Context, room schedule.Room, lease time.Duration,
) ([]*schedule.Delivery, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if err := q.ready(ctx); err != nil {
		if errors.Is(err, sending.ErrNotReady) { // new events are sent meanwhile, but not to resting destinations
			err = cmp.Or(q.findResting(ctx), err)
		}
		return nil, err
	}
	claimed, err := q.claim(ctx, deliveries.Ask(room), lease)
	if err != nil {
		q.sure = false // it may have been carried out, and so may others that Postgres has forgotten
		q.claims.Again()
		return nil, err
	}
	return q.held(claimed), nil
}

// ready reports whether claims may be made: the worker's lock is held, and the read model knows what was recorded until
// the lock was won, until this process began, or until the last claim that failed.
func (q *DeliveryQueue) ready(ctx context.Context) error {
	losses, holding := q.Holding()
	if !holding {
		return sending.ErrNotReady
	}
	if q.lossesSeen != losses {
		q.lossesSeen, q.sure, q.freeing, q.forgotten = losses, false, nil, nil
		q.claims.Again()
	}
	if q.sure {
		return nil
	}
	if err := q.claims.For(ctx, readyPatience); err != nil {
		return notReady(err)
	}
	q.sure = true
	return nil
}

// notReady words it for the deliverer that the read model is behind.
func notReady(err error) error {
	if errors.Is(err, projections.ErrBehind) {
		return sending.ErrNotReady
	}
	return err
}

// claim looks first, and claims where something may be due.
func (q *DeliveryQueue) claim(
	ctx context.Context, ask deliveries.Ask, lease time.Duration,
) ([]deliveries.Claimed, error) {
	q.next = time.Time{}
	if err := q.bringBack(ctx, lease); err != nil {
		return nil, err
	}
	live, seen, err := q.search(ctx)
	if err != nil {
		return nil, err
	}
	if !slices.Contains(live, q.id) {
		return nil, sending.ErrNotReady // Postgres has ended the session, and this process is yet to hear of it
	}
	freed, err := q.takeBack(ctx, seen.Holders, live, q.Now())
	if err != nil {
		return nil, err
	}
	if freed {
		if _, seen, err = q.search(ctx); err != nil {
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
	claimed, err := q.claimer.Claim(ctx, ask, lease, seen)
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

// search returns the workers that hold their locks, and what is due.
func (q *DeliveryQueue) search(ctx context.Context) (live []int32, seen deliveries.Seen, err error) {
	var batch pgx.Batch
	batch.Queue(`SELECT objid::bigint::int FROM pg_locks
		WHERE locktype = 'advisory' AND classid = $1::int::oid AND objsubid = 1 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, workerClass).
		Query(func(rows pgx.Rows) (err error) {
			live, err = pgx.CollectRows(rows, pgx.RowTo[int32])
			return err
		})
	q.queueResting(&batch)
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
	dead := q.dead(ids, live)
	if len(dead) == 0 && !ended {
		q.freeing = nil
		return false, nil
	}
	if q.freeing == nil {
		q.freeing = &ownerless{dead: dead, at: now}
		q.frees.Again()
	}
	if err := q.frees.For(ctx, freePatience); err != nil {
		if errors.Is(err, projections.ErrBehind) {
			return false, nil // free deliveries can be claimed all the same
		}
		return false, err
	}
	since := q.freeing
	q.freeing = nil
	dead = slices.DeleteFunc(dead, func(id int32) bool { return !slices.Contains(since.dead, id) })
	return true, deliveries.TakeBack(ctx, q.pool, dead, since.at)
}

// Recover implements sending.Queue.
func (q *DeliveryQueue) Recover(ctx context.Context, lease time.Duration, known func(uuid.UUID) bool) (int, error) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	if _, holding := q.Holding(); !holding {
		return 0, nil
	}
	held, err := deliveries.Held(ctx, q.pool, q.id, q.Now().Add(lease-leaseAge))
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
	if err := q.recovers.For(ctx, freePatience); err != nil {
		return 0, notReady(err)
	}
	held = slices.DeleteFunc(held, func(id uuid.UUID) bool { return !slices.Contains(q.forgotten, id) })
	q.forgotten = nil
	return len(held), deliveries.Release(ctx, q.pool, q.id, held)
}

// held returns what was claimed as the deliverer holds it. Deliveries of one event share their body.
func (q *DeliveryQueue) held(claimed []deliveries.Claimed) []*schedule.Delivery {
	bodies := map[*deliveries.Event]*sending.Body{}
	held := make([]*schedule.Delivery, len(claimed))
	for i, c := range claimed {
		body := bodies[c.Event]
		if body == nil {
			body = sending.NewBody(c.Event.ID, c.Event.Published, c.Event.RecordedAt)
			bodies[c.Event] = body
		}
		held[i] = body.Claimed(schedule.Delivery{
			ID:            c.ID,
			Destination:   c.Destination,
			Organization:  c.Organization,
			Subscriptions: c.Subscriptions,
			Replay:        c.Replay,
			Attempts:      c.Attempts,
			Automatic:     c.Automatic,
			Revision:      int64(c.Revision),
			LeasedUntil:   c.LeasedUntil,
			Losses:        q.lossesSeen,
		})
	}
	return held
}

// NextDue implements sending.Queue.
func (q *DeliveryQueue) NextDue() (at time.Time, planned bool) {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	return q.next, !q.next.IsZero()
}

// NotifyDue implements sending.Queue.
func (q *DeliveryQueue) NotifyDue() { projections.NotifyDue(q.locks, q.Now()) }

// Announce implements sending.Queue. Without its lock a worker says nothing.
func (q *DeliveryQueue) Announce(c sending.Capacity) {
	if _, holding := q.Holding(); holding {
		q.locks.Notify(capacities, announcement(q.id, c))
	}
}

// Release implements sending.Queue.
func (q *DeliveryQueue) Release(ctx context.Context, ids []uuid.UUID) error {
	return deliveries.Release(ctx, q.pool, q.id, ids)
}
