package deliveries

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/column"
)

// Holder is a worker that holds deliveries.
type Holder struct {
	Worker int32
	Ends   time.Time // the first of its leases
}

// holding reads two index entries for each worker that holds deliveries.
const holding = `
	WITH RECURSIVE workers AS (
		(SELECT worker, available_at FROM deliveries.due WHERE worker IS NOT NULL ORDER BY worker, available_at LIMIT 1)
		UNION ALL
		SELECT n.* FROM workers CROSS JOIN LATERAL (
			SELECT worker, available_at FROM deliveries.due WHERE worker > workers.worker
			ORDER BY worker, available_at LIMIT 1) n
	)
	SELECT worker, available_at FROM workers`

// withWorkers begins a statement that reads one index entry for each worker that holds deliveries.
const withWorkers = `
	WITH RECURSIVE workers AS (
		(SELECT worker FROM deliveries.due WHERE worker IS NOT NULL ORDER BY worker LIMIT 1)
		UNION ALL
		SELECT n.worker FROM workers CROSS JOIN LATERAL (
			SELECT worker FROM deliveries.due WHERE worker > workers.worker ORDER BY worker LIMIT 1) n
	)`

// takeBack takes an array instead of a join: a plan from a small table joined 2,000 held deliveries to a million
// waiting ones by a nested loop, which took over 15 s; so it takes 20 ms.
const takeBack = withWorkers + `, orphaned AS MATERIALIZED (
		SELECT held.id FROM workers CROSS JOIN LATERAL (
			SELECT id FROM deliveries.due WHERE due.worker = workers.worker FOR UPDATE SKIP LOCKED) held
		WHERE workers.worker = ANY($1::integer[])
	), expired AS MATERIALIZED (
		SELECT held.id FROM workers CROSS JOIN LATERAL (
			SELECT id FROM deliveries.due WHERE due.worker = workers.worker AND available_at <= $2
			FOR UPDATE SKIP LOCKED) held
		WHERE workers.worker <> ALL($1::integer[])
	), lost AS (
		SELECT id FROM orphaned UNION ALL SELECT id FROM expired
	)
	UPDATE deliveries.due SET worker = NULL, available_at = due_at WHERE id = ANY(ARRAY(SELECT id FROM lost))`

// TakeBack frees deliveries of dead workers, and those held for longer than their lease. The read model must know of
// every attempt that was recorded until now, or deliveries are sent again.
func TakeBack(ctx context.Context, pool *pgxpool.Pool, dead []int32, now time.Time) error {
	var batch pgx.Batch
	batch.Queue(planByIndex)
	batch.Queue(takeBack, append([]int32{}, dead...), now) // never NULL, which would match nothing
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return fmt.Errorf("take back deliveries: %w", err)
	}
	return nil
}

// Held lists what a worker holds by leases that end before a time.
func Held(ctx context.Context, pool *pgxpool.Pool, worker int32, before time.Time) ([]uuid.UUID, error) {
	var (
		batch pgx.Batch
		held  []uuid.UUID
	)
	batch.Queue(planByIndex)
	batch.Queue("SELECT id FROM deliveries.due WHERE worker = $1 AND available_at < $2", worker, before).
		Query(func(rows pgx.Rows) error {
			var id uuid.UUID
			_, err := pgx.ForEachRow(rows, []any{column.UUID(&id)}, func() error {
				held = append(held, id)
				return nil
			})
			return err
		})
	if err := pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, fmt.Errorf("held deliveries: %w", err)
	}
	return held, nil
}

// maxSkew is how far clocks may differ without harm.
const maxSkew = "interval '5 seconds'"

// BringBack brings forward deliveries planned further ahead than their schedule allows, and returns their number: those
// whose due time was decided by a clock ahead of this one, leases that are too long, and pauses. It reads all that
// waits.
func BringBack(ctx context.Context, pool *pgxpool.Pool, now time.Time, lease time.Duration) (moved int64, err error) {
	done, err := pool.Exec(ctx, `
		WITH far AS (
			SELECT id, greatest(decided_at - $1::timestamptz, interval '0') AS by FROM deliveries.due
			WHERE decided_at > $1::timestamptz + `+maxSkew+` OR CASE WHEN worker IS NULL
				THEN available_at > greatest(due_at, $1::timestamptz + `+maxSkew+`)
				ELSE available_at > $1::timestamptz + $2::interval + `+maxSkew+` END
			FOR UPDATE)
		UPDATE deliveries.due SET due_at = due_at - far.by, decided_at = decided_at - far.by,
			available_at = CASE WHEN worker IS NULL THEN due_at - far.by ELSE least(available_at, $1::timestamptz + `+
		`$2::interval) END
		FROM far WHERE due.id = far.id`, now, lease)
	if err != nil {
		return 0, fmt.Errorf("bring back due times: %w", err)
	}
	return done.RowsAffected(), nil
}
