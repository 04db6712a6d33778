package query

import (
	"context"
	"time"

	"carillon/aggregates/retirement"
	"carillon/eventstore"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// HealthOf returns how destinations have answered, with times in UTC, which are zero if there was none.
func (q *Queries) HealthOf(ctx context.Context, destinations []uuid.UUID) (map[uuid.UUID]retirement.Health, error) {
	type health struct {
		Destination uuid.UUID
		retirement.Health
	}
	const zero = " AT TIME ZONE 'UTC', '0001-01-01')"
	rows, err := many(ctx, q.Pool, "health", pgx.RowToStructByPos[health],
		`SELECT destination, consecutive_failures, coalesce(streak_started_at`+zero+`, coalesce(last_success_at`+zero+`,
			coalesce(last_failure_at`+zero+`, coalesce(last_error_message, '')
		FROM health.health WHERE destination = ANY($1)`, destinations)
	all := make(map[uuid.UUID]retirement.Health, len(rows))
	for _, h := range rows {
		all[h.Destination] = h.Health
	}
	return all, err
}

// Oldest lists events that were published before a time, in the order of their publishing, after one of them (the zero
// value: from the first). revision is that of the last retirement that these rows have applied, -1 before the first.
func (q *Queries) Oldest(
	ctx context.Context, before time.Time, after retirement.Old, limit int,
) (page []retirement.Old, revision eventstore.Revision, err error) {
	return retirable(ctx, q.Pool, "oldest events", "publications.retirement",
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
func retirable(
	ctx context.Context, pool *pgxpool.Pool, name, applied, sql string, args ...any,
) (page []retirement.Old, revision eventstore.Revision, err error) {
	options := pgx.TxOptions{IsoLevel: pgx.RepeatableRead, AccessMode: pgx.ReadOnly}
	err = pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) (err error) {
		revision, err = value[eventstore.Revision](ctx, tx, name, "SELECT coalesce((SELECT revision FROM "+applied+"), -1)")
		if err == nil {
			page, err = many(ctx, tx, name, pgx.RowToStructByPos[retirement.Old], sql, args...)
		}
		return err
	})
	return page, revision, err
}
