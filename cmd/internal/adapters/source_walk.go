package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collection"
)

// walk is collection.Walk. It is remembered in Postgres.
type walk struct {
	pool   *pgxpool.Pool
	source uuid.UUID
	holder uuid.UUID
	number int
	wanted bool
}

const (
	// fence lets one who has lost the turn change nothing, and is a sign of life.
	fence = `UPDATE carillon.source_walks SET held_until = greatest(held_until, clock_timestamp() + $3) WHERE source_id = $1 AND holder = $2`

	beginWalk = `
		UPDATE carillon.source_walks w SET number = $2, walking = true, began_at = clock_timestamp(), asked = 0, linked = $3, tally = '{}',
			wanted = $4, served_at = CASE WHEN $4 THEN coalesce(s.wanted_at, w.served_at) ELSE w.served_at END
		FROM sources.sources s WHERE w.source_id = $1 AND s.id = $1`
	nextPage = `
		SELECT address, role, list, lasting, modified, root, state, read_at, read_modified, shown, until, barren, asked_at
		FROM carillon.source_pages WHERE source_id = $1 AND ahead AND walk = $2 ORDER BY rank, place LIMIT 1`
	// What is known from the events alone is compared when all pages were read that may tell of it. A page that fails for
	// good holds that back for a day.
	conclude = `
		WITH whole AS (
			SELECT NOT EXISTS (SELECT 1 FROM carillon.source_pages
				WHERE source_id = $1 AND walk = $2 AND list AND outcome IN ('failed', 'partial')) AS lists,
				NOT EXISTS (SELECT 1 FROM carillon.source_pages
				WHERE source_id = $1 AND walk = $2 AND outcome IN ('failed', 'partial')) AS pages),
		gone AS (
			DELETE FROM carillon.source_pages WHERE source_id = $1 AND walk < $2 AND (SELECT lists FROM whole) RETURNING page),
		untold AS (
			DELETE FROM carillon.source_tellings t USING gone WHERE t.source_id = $1 AND t.page = gone.page RETURNING t.happening_id)
		UPDATE carillon.source_views v SET waiting = true, restored_at = NULL
		WHERE source_id = $1 AND (happening_id IN (SELECT happening_id FROM untold)
			OR restored_at IS NOT NULL AND (SELECT pages FROM whole)
			OR restored_at < clock_timestamp() - interval '1 day'
				AND EXISTS (SELECT 1 FROM carillon.source_tellings t WHERE t.source_id = $1 AND t.happening_id = v.happening_id))`
	observed = `
		SELECT (SELECT count(*) FROM carillon.source_views WHERE source_id = $1),
			NOT EXISTS (SELECT 1 FROM carillon.source_pages
				WHERE source_id = $1 AND walk = $2 AND shown > 0 AND NOT notes @> '[{"code": "needs-javascript"}]')`
	pageNotes = `
		SELECT n->>'code', n->>'text' FROM (
			SELECT jsonb_array_elements(notes) AS n FROM carillon.source_pages
			WHERE source_id = $1 AND walk = $2 AND notes <> '[]' ORDER BY rank, place LIMIT $3) notes LIMIT $3`
	leaveWalk = `
		UPDATE carillon.source_walks SET holder = NULL, held_until = '-infinity', walking = walking AND NOT $3, wanted = wanted AND NOT $3,
			next_at = clock_timestamp() + $4, completed_at = CASE WHEN $5 THEN clock_timestamp() ELSE completed_at END,
			interval_seconds = $6, failures = $7, stumbles = $8, remark = $9, observed = CASE WHEN $5 THEN $10 ELSE observed END
		WHERE source_id = $1 AND holder = $2`
)

// fenced runs statements while the turn is this visit's.
func (w *walk) fenced(ctx context.Context, what string, do func(pgx.Tx) error) error {
	err := pgx.BeginFunc(ctx, w.pool, func(tx pgx.Tx) error {
		tag, err := tx.Exec(ctx, fence, w.source, w.holder, turnLength)
		if err != nil {
			return err
		}
		if tag.RowsAffected() == 0 {
			return collection.ErrLost
		}
		return do(tx)
	})
	return wrap(what, err)
}

// Begin implements collection.Walk.
func (w *walk) Begin(ctx context.Context, start []collect.Link) error {
	return w.fenced(ctx, "begin walk", func(tx pgx.Tx) error {
		lasting, err := w.linkedBy(ctx, tx, "lasting AND walk < $2 ORDER BY place", w.number)
		if err != nil {
			return err
		}
		roots, err := w.link(ctx, tx, linking{links: start, root: true})
		if err != nil {
			return err
		}
		more, err := w.link(ctx, tx, linking{links: lasting})
		if err != nil {
			return err
		}
		_, err = tx.Exec(ctx, beginWalk, w.source, w.number, roots+more, w.wanted)
		return err
	})
}

// Next implements collect.Frontier.
func (w *walk) Next(ctx context.Context) (page collect.Known, ok bool, err error) {
	var read, until, asked *time.Time
	err = w.pool.QueryRow(ctx, nextPage, w.source, w.number).Scan(&page.Address, &page.Role, &page.List, &page.Lasting, &page.Modified, &page.Root,
		&page.State, &read, &page.ReadModified, &page.Shown, &until, &page.Barren, &asked)
	if errors.Is(err, pgx.ErrNoRows) {
		return page, false, nil
	}
	page.ReadAt, page.Until, page.AskedAt = timeOf(read), timeOf(until), timeOf(asked)
	return page, err == nil, wrap("next page", err)
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Conclude implements collection.Walk.
func (w *walk) Conclude(ctx context.Context) error {
	return w.fenced(ctx, "conclude walk", func(tx pgx.Tx) error {
		_, err := tx.Exec(ctx, conclude, w.source, w.number)
		return err
	})
}

// shownNotes is how many notes of a source's pages anybody would read.
const shownNotes = 20

// Result implements collection.Walk.
func (w *walk) Result(ctx context.Context) (result collection.Result, err error) {
	var batch pgx.Batch
	batch.Queue(observed, w.source, w.number).QueryRow(func(row pgx.Row) error { return row.Scan(&result.Observed, &result.Empty) })
	batch.Queue(pageNotes, w.source, w.number, shownNotes).Query(func(rows pgx.Rows) (err error) {
		result.Notes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[source.Note])
		return err
	})
	return result, wrap("result of walk", w.pool.SendBatch(ctx, &batch).Close())
}

// Leave implements collection.Walk.
func (w *walk) Leave(ctx context.Context, next collection.Next) error {
	tag, err := w.pool.Exec(ctx, leaveWalk, w.source, w.holder, next.Over, next.In, next.Completed,
		int(next.Interval/time.Second), next.Failures, next.Stumbles, next.Remark, next.Observed)
	if err == nil && tag.RowsAffected() == 0 {
		return collection.ErrLost
	}
	return wrap("leave walk", err)
}

func encodeTally(tally collection.Tally) ([]byte, error) {
	data, err := json.Marshal(tally)
	return data, wrap("tally", err)
}
