package adapters

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/visiting"
)

// walk is visiting.Walk. It is remembered in Postgres.
type walk struct {
	pool   *pgxpool.Pool
	source uuid.UUID
	holder uuid.UUID
	number int
	wanted bool
	wish   *time.Time

	// waiting is the result of the search for happenings while a page was recorded, if known: the next query uses it,
	// once.
	waiting []visiting.View
	known   bool
	// next are the first of the pages that are ahead, in order: the turn is this visit's, so no one else reads them. nil
	// if that is not known.
	next []collect.Known
	// paused is as of the last look, asked that the recording of a page has looked: Next need not.
	paused, asked bool
	// nothingRestored: all happenings of the source are known by their pages.
	nothingRestored bool
	// behind are the shown happenings by the evidence of pages that may show more of them.
	behind map[uuid.UUID][]uuid.UUID
	// settled are compared happenings to be written with the next page. If the process is killed before, the next visit
	// compares them once more, and finds them recorded.
	settled []visiting.Settled
	tally   []byte // as of then, if that is yet to be written
	// fresh is the page whose happenings, new to the source, are not all compared yet, and unsettled are those. A visit
	// that was cut off may have left it: then they are marked before anything is compared.
	fresh     uuid.UUID
	unsettled map[uuid.UUID]struct{}
	left      bool
}

const (
	holdWalk = `SELECT carillon.hold_walk($1, $2, $3, $4, $5, $6, $7)`

	beginWalk = `
		UPDATE carillon.source_walks w SET number = $2, walking = true, began_at = clock_timestamp(), asked = 0, linked = $3,
		tally = '{}',
			wanted = $4, served_at = coalesce($5, w.served_at)
		WHERE w.source_id = $1`
	selectNext = `
		SELECT ` + knownColumns + `, root, state
		FROM carillon.source_pages WHERE source_id = $1 AND ahead AND walk = $2 ORDER BY rank, place LIMIT $3`
	selectPaused = `SELECT EXISTS (SELECT FROM sources.sources WHERE id = $1 AND paused_at IS NOT NULL)`
	// Happenings known from the events alone are compared when all pages were read that may show them. A page that keeps
	// failing delays that for a day.
	conclude = `
		WITH whole AS (
			SELECT NOT EXISTS (SELECT 1 FROM carillon.source_pages
				WHERE source_id = $1 AND walk = $2 AND list AND outcome IN ('failed', 'partial')) AS lists,
				NOT EXISTS (SELECT 1 FROM carillon.source_pages
				WHERE source_id = $1 AND walk = $2 AND outcome IN ('failed', 'partial')) AS pages),
		gone AS (
			DELETE FROM carillon.source_pages WHERE source_id = $1 AND walk < $2 AND (SELECT lists FROM whole) RETURNING page),
		untold AS (
			DELETE FROM carillon.source_tellings t USING gone WHERE t.source_id = $1 AND t.page = gone.page
			RETURNING t.happening_id)
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
		UPDATE carillon.source_walks SET holder = NULL, held_until = '-infinity', walking = walking
		AND NOT $3, wanted = wanted AND NOT $3,
			next_at = clock_timestamp() + $4, completed_at = CASE WHEN $5 THEN clock_timestamp() ELSE completed_at END,
			last_tally = CASE WHEN $5 THEN tally ELSE last_tally END, interval_seconds = $6, failures = $7, stumbles = $8,
			remark = $9, observed = CASE WHEN $5 THEN $10 ELSE observed END
		WHERE source_id = $1 AND holder = $2`
)

// lostTurn is the SQLSTATE by which carillon.hold_walk refuses.
const lostTurn = "CAR01"

// step is how far a walk has come.
type step struct {
	fresh         uuid.UUID // see walk
	asked, linked int       // pages, since the last one
	tally         []byte    // nil means what was settled last
}

// held runs statements as one transaction, in one go, while the turn is this visit's.
func (w *walk) held(ctx context.Context, what string, s step, add func(*pgx.Batch)) error {
	if s.tally == nil {
		s.tally = w.tally
	}
	var batch pgx.Batch
	batch.Queue(holdWalk, w.source, w.holder, turnLength, pgtype.UUID{Bytes: s.fresh, Valid: s.fresh != uuid.Nil}, s.asked,
		s.linked, s.tally)
	w.queueSettled(&batch)
	add(&batch)
	err := w.pool.SendBatch(ctx, &batch).Close()
	if err == nil {
		w.settled, w.tally, w.fresh = nil, nil, s.fresh
		w.left = w.left && s.fresh != uuid.Nil
	}
	if pg := (*pgconn.PgError)(nil); errors.As(err, &pg) && pg.Code == lostTurn {
		return visiting.ErrLost
	}
	return wrap(what, err)
}

// Begin implements visiting.Walk.
func (w *walk) Begin(ctx context.Context, start []collect.Link) error {
	lasting, err := w.linkedBy(ctx, "lasting AND walk < $2 ORDER BY place", w.number)
	if err != nil {
		return wrap("begin walk", err)
	}
	roots, err := w.rowsOf(ctx, linking{links: start, root: true})
	if err != nil {
		return wrap("begin walk", err)
	}
	more, err := w.rowsOf(ctx, linking{links: lasting})
	if err != nil {
		return wrap("begin walk", err)
	}
	return w.held(ctx, "begin walk", step{fresh: w.fresh}, func(batch *pgx.Batch) {
		batch.Queue(beginWalk, w.source, w.number, roots.count+more.count, w.wanted, w.wish)
		roots.queue(batch)
		more.queue(batch)
	})
}

// pagesAhead is how many pages are asked for at one time: finding the first among those that were read costs more than
// reading some.
const pagesAhead = 64

// Next implements collect.Frontier.
func (w *walk) Next(ctx context.Context) (next collect.Known, ok bool, err error) {
	if !w.asked {
		var batch pgx.Batch
		w.queueNext(&batch, w.next == nil)
		if err := w.pool.SendBatch(ctx, &batch).Close(); err != nil {
			return collect.Known{}, false, wrap("next page", err)
		}
	}
	w.asked = false
	switch {
	case w.paused:
		return collect.Known{}, false, visiting.ErrPaused
	case len(w.next) == 0:
		return collect.Known{}, false, nil
	}
	return w.next[0], true, nil
}

// queueNext queries the data for Next: whether the source may be asked, and which pages are ahead, unless that is
// known.
func (w *walk) queueNext(batch *pgx.Batch, pages bool) {
	batch.Queue(selectPaused, w.source).QueryRow(func(row pgx.Row) error { return row.Scan(&w.paused) })
	if pages {
		batch.Queue(selectNext, w.source, w.number, pagesAhead).Query(func(rows pgx.Rows) (err error) {
			w.next, err = pgx.CollectRows(rows, scanNext)
			return err
		})
	}
}

func scanNext(row pgx.CollectableRow) (p collect.Known, err error) {
	err = scanKnown(row, &p, &p.Root, &p.State)
	return p, err
}

// scanKnown reads knownColumns and any columns that follow them.
func scanKnown(row pgx.CollectableRow, p *collect.Known, more ...any) error {
	var read, until, asked *time.Time
	err := row.Scan(append([]any{&p.Address, &p.Role, &p.List, &p.Lasting, &p.Modified, &read, &p.ReadModified, &p.Shown,
		&until, &p.Barren, &asked}, more...)...)
	p.ReadAt, p.Until, p.AskedAt = timeOf(read), timeOf(until), timeOf(asked)
	return err
}

func timeOf(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

// Conclude implements visiting.Walk.
func (w *walk) Conclude(ctx context.Context) error {
	return w.held(ctx, "conclude walk", step{fresh: w.fresh}, func(batch *pgx.Batch) {
		batch.Queue(conclude, w.source, w.number)
	})
}

// shownNotes is how many notes of a source's pages are shown.
const shownNotes = 20

// Result implements visiting.Walk.
func (w *walk) Result(ctx context.Context) (result visiting.Result, err error) {
	if err := w.flush(ctx); err != nil {
		return result, err
	}
	var batch pgx.Batch
	batch.Queue(observed, w.source, w.number).QueryRow(func(row pgx.Row) error {
		return row.Scan(&result.Observed, &result.Empty)
	})
	batch.Queue(pageNotes, w.source, w.number, shownNotes).Query(func(rows pgx.Rows) (err error) {
		result.Notes, err = pgx.CollectRows(rows, pgx.RowToStructByPos[source.Note])
		return err
	})
	return result, wrap("result of walk", w.pool.SendBatch(ctx, &batch).Close())
}

// Leave implements visiting.Walk.
func (w *walk) Leave(ctx context.Context, next visiting.Next) error {
	if err := w.flush(ctx); err != nil {
		return err
	}
	tag, err := w.pool.Exec(ctx, leaveWalk, w.source, w.holder, next.Over, next.In, next.Completed,
		int(next.Interval/time.Second), next.Failures, next.UnreadableInARow, next.Remark, next.Observed)
	if err == nil && tag.RowsAffected() == 0 {
		return visiting.ErrLost
	}
	return wrap("leave walk", err)
}

func encodeTally(tally visiting.Tally) ([]byte, error) {
	data, err := json.Marshal(tally)
	return data, wrap("tally", err)
}
