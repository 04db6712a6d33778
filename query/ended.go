package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/retirement"
	"carillon/eventstore"
)

// ended chooses happenings that have ended before a time, $1.
const ended = `coalesce(s.ends_at, s.stale) < $1
	AND NOT EXISTS (SELECT FROM items.shown o WHERE o.happening_id = s.happening_id
		AND (o.ends_at >= $1 OR o.told_at >= $1 OR o.stale >= $1))
	AND NOT EXISTS (SELECT FROM items.merged m WHERE m.happening_id = s.happening_id)`

// EndedShare counts the happenings that Ended lists, and all.
func (q *Queries) EndedShare(ctx context.Context, before time.Time) (due, of int, err error) {
	return share(ctx, q.Pool, "share of ended happenings",
		`SELECT count(DISTINCT happening_id) FROM items.shown s WHERE `+ended,
		"SELECT count(DISTINCT happening_id) FROM items.shown", before)
}

// Ended lists happenings that have ended before a time as a source shows them and were not merged into others, in the
// order of these ends, after one of them (the zero value: from the first). Those that a source shows with a later date,
// or that have changed since, are left out. revision is that of the last retirement of happenings that these rows have
// applied, -1 before the first.
func (q *Queries) Ended(
	ctx context.Context, before time.Time, after retirement.Old, limit int,
) (page []retirement.Old, revision eventstore.Revision, err error) {
	return retirable(ctx, q.Pool, "ended happenings", "items.retirement",
		`SELECT s.happening_id, coalesce(s.ends_at, s.stale) FROM items.shown s
		WHERE `+ended+` AND (coalesce(s.ends_at, s.stale), s.happening_id) > ($2, $3)
		ORDER BY coalesce(s.ends_at, s.stale), s.happening_id LIMIT $4`, before, after.At, after.ID, limit)
}

// FeedsOf lists the feeds in which happenings are or were items.
func (q *Queries) FeedsOf(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]uuid.UUID, error) {
	rows, err := many(ctx, q.Pool, "feeds of happenings", pgx.RowToStructByPos[pair[uuid.UUID, uuid.UUID]],
		`SELECT happening_id, feed_id FROM items.items WHERE happening_id = ANY($1)
		UNION SELECT happening_id, feed_id FROM items.former WHERE happening_id = ANY($1) ORDER BY 1, 2`, happenings)
	all := map[uuid.UUID][]uuid.UUID{}
	for _, r := range rows {
		all[r.Key] = append(all[r.Key], r.Value)
	}
	return all, err
}

// Backfills returns what came by the backfills of sources in feeds. Sources that are attached no longer are left out.
func (q *Queries) Backfills(ctx context.Context, of []retirement.Filled) ([]retirement.Backfilled, error) {
	feeds, sources := make([]uuid.UUID, len(of)), make([]uuid.UUID, len(of))
	for i, f := range of {
		feeds[i], sources[i] = f.Feed, f.Source
	}
	return many(ctx, q.Pool, "backfills", pgx.RowToStructByPos[retirement.Backfilled],
		`SELECT a.feed_id, a.source_id, a.attached_at, a.added
		FROM unnest($1::uuid[], $2::uuid[]) AS f (feed_id, source_id)
		JOIN sources.attachments a ON a.feed_id = f.feed_id AND a.source_id = f.source_id ORDER BY 1, 2`, feeds, sources)
}

// ItemsQuiet reports whether no item of a happening was added or got feedback since a time.
func (q *Queries) ItemsQuiet(ctx context.Context, happening uuid.UUID, since time.Time) (quiet bool, err error) {
	return value[bool](ctx, q.Pool, "items of a happening",
		`SELECT NOT EXISTS (SELECT FROM items.items i WHERE i.happening_id = $1
		AND (i.added_at >= $2 OR EXISTS (SELECT FROM items.feedback f
			WHERE f.feed_id = i.feed_id AND f.item_id = i.id AND f.given_at >= $2)))`, happening, since)
}

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
	return keyed(rows, func(h health) (uuid.UUID, retirement.Health) { return h.Destination, h.Health }), err
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
	err = pgx.BeginTxFunc(ctx, pool, snapshot, func(tx pgx.Tx) (err error) {
		revision, err = value[eventstore.Revision](ctx, tx, name, "SELECT coalesce((SELECT revision FROM "+applied+"), -1)")
		if err == nil {
			page, err = many(ctx, tx, name, pgx.RowToStructByPos[retirement.Old], sql, args...)
		}
		return err
	})
	return page, revision, err
}
