package adapters

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/delivery/sending"
	"carillon/projections/column"
)

const (
	// restDestination goes by the clock of Postgres, as all processes compare it. Rests that are over are forgotten, a few
	// at a time.
	restDestination = `
		WITH over AS (DELETE FROM carillon.resting WHERE destination IN (
			SELECT destination FROM carillon.resting WHERE until < clock_timestamp() - interval '1 hour' LIMIT 100
			FOR UPDATE SKIP LOCKED))
		INSERT INTO carillon.resting AS r (destination, until, asked_at)
		VALUES ($1, clock_timestamp() + $2::interval, clock_timestamp())
		ON CONFLICT (destination) DO UPDATE SET until = greatest(r.until, excluded.until), asked_at = excluded.asked_at`
	// restingNow leaves out destinations that were changed since: they may be other receivers now.
	restingNow = `
		SELECT r.destination, extract(epoch FROM least(r.until - clock_timestamp(), interval '24 hours'))::float8
		` + atRest
	atRest = `FROM carillon.resting r WHERE r.until > clock_timestamp()
			AND NOT EXISTS (SELECT FROM destinations.destinations t WHERE t.id = r.destination AND t.updated_at > r.asked_at)`
	// heldUntil is when the rest of a destination ends, or its limit allows the next request.
	heldUntil = `SELECT greatest(
		(SELECT r.until ` + atRest + ` AND r.destination = $1),
		(SELECT next_at FROM carillon.hosts WHERE name = $2 AND next_at BETWEEN clock_timestamp() AND clock_timestamp() +
			interval '1 hour'))`
)

// HeldUntil implements command.Backlog.
func (b Backlog) HeldUntil(ctx context.Context, destination uuid.UUID) (until time.Time, err error) {
	err = b.Queries.Pool.QueryRow(ctx, heldUntil, destination, sending.SlotName(destination)).Scan(column.Time(&until))
	if err != nil {
		return until, fmt.Errorf("rest of a destination: %w", err)
	}
	return until.UTC(), nil
}

// Rest implements sending.Queue.
func (q *DeliveryQueue) Rest(ctx context.Context, destination uuid.UUID, wait time.Duration) error {
	var batch pgx.Batch
	batch.Queue(restDestination, destination, wait)
	q.progress.QueueTell(&batch, restingName)
	if err := q.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("rest of a destination: %w", err)
	}
	return nil
}

// OnRest calls a function when a process lets a destination rest.
func (q *DeliveryQueue) OnRest(heard func()) { q.progress.OnNotified(restingName, heard) }

// restingName is the notification between processes that a destination begins to rest.
const restingName = "resting"

// Resting implements sending.Queue.
func (q *DeliveryQueue) Resting() map[uuid.UUID]time.Duration {
	q.claiming.Lock()
	defer q.claiming.Unlock()
	return q.resting
}

// findResting asks for resting destinations without a look.
func (q *DeliveryQueue) findResting(ctx context.Context) error {
	var batch pgx.Batch
	q.queueResting(&batch)
	if err := q.pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("resting destinations: %w", err)
	}
	return nil
}

// queueResting asks for resting destinations along with a look.
func (q *DeliveryQueue) queueResting(batch *pgx.Batch) {
	batch.Queue(restingNow).Query(func(rows pgx.Rows) error {
		q.resting = nil
		var (
			id   uuid.UUID
			left float64
		)
		_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), &left}, func() error {
			if q.resting == nil {
				q.resting = map[uuid.UUID]time.Duration{}
			}
			q.resting[id] = time.Duration(left * float64(time.Second))
			return nil
		})
		return err
	})
}

// restEnds is when the first of the rests ends; zero means that there is none.
func (q *DeliveryQueue) restEnds(now time.Time) (ends time.Time) {
	for _, left := range q.resting {
		if at := now.Add(left); ends.IsZero() || at.Before(ends) {
			ends = at
		}
	}
	return ends
}
