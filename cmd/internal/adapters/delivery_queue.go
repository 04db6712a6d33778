package adapters

import (
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	deliveryaggregate "carillon/aggregates/delivery"
	"carillon/aggregates/publication"
	"carillon/command/delivery"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/sessionlock"
)

const (
	// workerClass is the first half of the advisory locks by which workers show that they live.
	workerClass   = 0x43415249
	workerRenewal = time.Second // before a lost one is taken again
)

// DeliveryQueue is delivery.Queue on the read model. The worker that it stands for lives as long as its Postgres
// session holds an advisory lock: when its process is killed, the lock is gone and others take over its deliveries at
// once.
//
// Nothing is claimed without that lock, nor before the read model has everything that was stored when the lock was
// taken: a row whose outcome it has not read yet would be sent again.
type DeliveryQueue struct {
	pool    *pgxpool.Pool
	worker  int32
	now     func() time.Time
	reached func(context.Context) error // waits until the read model is there
	open    atomic.Bool                 // whether deliveries may be claimed
}

var _ delivery.Queue = (*DeliveryQueue)(nil)

// NewDeliveryQueue makes the queue of a worker with an identity of its own. reached waits until the read model of
// deliveries has everything that is stored when it is called.
func NewDeliveryQueue(pool *pgxpool.Pool, now func() time.Time, reached func(context.Context) error) *DeliveryQueue {
	return &DeliveryQueue{pool: pool, worker: 1 + rand.Int32N(1<<31-2), now: now, reached: reached} //nolint:gosec // an identity, no secret
}

// StayAlive holds the worker's lock until the context ends, and takes it again on a new session when Postgres was away.
func (q *DeliveryQueue) StayAlive(ctx context.Context, log *slog.Logger) {
	for ctx.Err() == nil {
		if err := q.hold(ctx, log); err != nil && ctx.Err() == nil {
			log.Warn("this worker's sign of life was lost, renewing it", "error", err)
			select {
			case <-ctx.Done():
			case <-time.After(workerRenewal):
			}
		}
	}
}

func (q *DeliveryQueue) hold(ctx context.Context, log *slog.Logger) error {
	session, err := sessionlock.Open(ctx, q.pool, "worker", nil)
	if err != nil {
		return err
	}
	defer session.Close()
	if err := session.Lock(ctx, sessionlock.Pair(workerClass, q.worker)); err != nil {
		return err
	}
	held, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		select {
		case <-session.Lost():
			cancel()
		case <-held.Done():
		}
	}()
	// The lock is kept meanwhile: it also stands for the deliveries that the dispatcher has handed over.
	for err := q.reached(held); err != nil && held.Err() == nil; err = q.reached(held) {
		log.Warn("deliveries can't be claimed yet: whether their read model is there can't be told", "error", err)
		select {
		case <-held.Done():
		case <-time.After(workerRenewal):
		}
	}
	q.open.Store(held.Err() == nil)
	defer q.open.Store(false)
	<-held.Done()
	return session.Err()
}

// Worker implements delivery.Queue.
func (q *DeliveryQueue) Worker() int32 { return q.worker }

// Claim implements delivery.Queue.
func (q *DeliveryQueue) Claim(ctx context.Context, full []uuid.UUID, perDestination, limit int, lease time.Duration) ([]delivery.Job, error) {
	if !q.open.Load() {
		return nil, nil
	}
	rows, err := q.pool.Query(ctx, `SELECT objid::bigint::int FROM pg_locks
		WHERE locktype = 'advisory' AND classid = $1::int::oid AND objsubid = 2 AND granted
			AND database = (SELECT oid FROM pg_database WHERE datname = current_database())`, workerClass)
	if err != nil {
		return nil, fmt.Errorf("live workers: %w", err)
	}
	live, err := pgx.CollectRows(rows, pgx.RowTo[int32])
	if err != nil {
		return nil, fmt.Errorf("live workers: %w", err)
	}
	claimed, err := deliveries.Claim(ctx, q.pool, q.worker, live, full, perDestination, limit, lease, q.now())
	if err != nil {
		return nil, err
	}
	targets, bodies := map[*deliveries.Endpoint]*delivery.Target{}, map[*deliveries.Event]*delivery.Body{}
	jobs := make([]delivery.Job, len(claimed))
	for i, c := range claimed {
		jobs[i] = delivery.Job{
			ID: c.ID, Target: target(targets, c.Endpoint), Body: body(bodies, c.Event), Attempts: c.Attempts,
			Replay: c.Replay, LeasedUntil: c.LeasedUntil,
		}
		if c.Replay == uuid.Nil { // then it is pending; what a replay finds is read from the stream
			jobs[i].Known = &eventstore.Loaded[deliveryaggregate.State]{
				State:    deliveryaggregate.State{Attempts: c.Attempts, Automatic: c.Automatic},
				Revision: c.Revision,
			}
		}
	}
	return jobs, nil
}

func target(made map[*deliveries.Endpoint]*delivery.Target, e *deliveries.Endpoint) *delivery.Target {
	if made[e] == nil {
		t := &delivery.Target{ID: e.ID, Organization: e.Organization, Enabled: true, URL: e.URL, Headers: e.Headers}
		for _, s := range e.Secrets {
			t.Secrets = append(t.Secrets, delivery.SealedSecret{ID: s.ID, Sealed: s.Sealed, ExpiresAt: s.ExpiresAt})
		}
		made[e] = t
	}
	return made[e]
}

func body(made map[*deliveries.Event]*delivery.Body, e *deliveries.Event) *delivery.Body {
	if made[e] == nil {
		made[e] = &delivery.Body{Event: e.ID, Published: publication.Published{
			Type: e.Type, Source: e.Source, Subject: e.Subject, Time: e.Time, FeedType: e.FeedType, FeedID: e.FeedID, Data: e.Data,
		}}
	}
	return made[e]
}

// NextDue implements delivery.Queue.
func (q *DeliveryQueue) NextDue(ctx context.Context) (time.Time, bool, error) {
	return deliveries.NextDue(ctx, q.pool, q.now())
}

// Release implements delivery.Queue.
func (q *DeliveryQueue) Release(ctx context.Context, ids []uuid.UUID) error {
	return deliveries.Release(ctx, q.pool, q.worker, ids)
}
