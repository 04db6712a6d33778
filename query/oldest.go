package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// PublishedAt is a published event, and when the store recorded it.
type PublishedAt struct {
	ID uuid.UUID
	At time.Time
}

// HealthState is how a destination has answered.
type HealthState struct {
	ConsecutiveFailures int
	StreakStartedAt     time.Time
	LastSuccessAt       time.Time
	LastFailureAt       time.Time
	LastErrorMessage    string
}

// HealthOf returns how destinations have answered, with times in UTC, which are zero if there was none.
func (q *Queries) HealthOf(ctx context.Context, destinations []uuid.UUID) (map[uuid.UUID]HealthState, error) {
	type health struct {
		Destination uuid.UUID
		HealthState
	}
	const zero = " AT TIME ZONE 'UTC', '0001-01-01')"
	rows, err := many(ctx, q.Pool, "health", pgx.RowToStructByPos[health],
		`SELECT destination, consecutive_failures, coalesce(streak_started_at`+zero+`, coalesce(last_success_at`+zero+`,
			coalesce(last_failure_at`+zero+`, coalesce(last_error_message, '')
		FROM health.health WHERE destination = ANY($1)`, destinations)
	all := make(map[uuid.UUID]HealthState, len(rows))
	for _, h := range rows {
		all[h.Destination] = h.HealthState
	}
	return all, err
}

// Oldest lists events that were published before a time, in the order of their publishing, after one of them (the zero
// value: from the first). revision is that of the last retirement that these rows have applied, -1 before the first.
func (q *Queries) Oldest(
	ctx context.Context, before time.Time, after PublishedAt, limit int,
) (page []PublishedAt, revision int64, err error) {
	return retirable(ctx, q.Pool, "oldest events", pgx.RowToStructByPos[PublishedAt], "publications.retirement",
		`SELECT id, published_at FROM publications.publications
		WHERE published_at < $1 AND (published_at, id) > ($2, $3) ORDER BY published_at, id LIMIT $4`,
		before, after.At, after.ID, limit)
}

// OldestShare counts the events that were published before a time, and all.
func (q *Queries) OldestShare(ctx context.Context, before time.Time) (due, of int, err error) {
	return share(ctx, q.Pool, "share of old events",
		"SELECT count(*) FROM publications.publications WHERE published_at < $1",
		"SELECT count(*) FROM publications.publications", before)
}

// share counts what is due before a time, and all unless that is none.
func share(ctx context.Context, pool *pgxpool.Pool, name, due, of string, before time.Time) (n, all int, err error) {
	if n, err = value[int](ctx, pool, name, due, before); err == nil && n > 0 {
		all, err = value[int](ctx, pool, name, of)
	}
	return n, all, err
}

// retirable returns a page of what may be retired, and from a table of the same snapshot the revision of the last
// retirement that the rows have applied, -1 before the first.
func retirable[T any](
	ctx context.Context, pool *pgxpool.Pool, name string, scan pgx.RowToFunc[T], retirement, sql string, args ...any,
) (page []T, revision int64, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) (err error) {
		revision, err = value[int64](ctx, tx, name, "SELECT coalesce((SELECT revision FROM "+retirement+"), -1)")
		if err == nil {
			page, err = many(ctx, tx, name, scan, sql, args...)
		}
		return err
	})
	return page, revision, err
}
