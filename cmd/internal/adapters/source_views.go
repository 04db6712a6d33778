package adapters

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collection"
)

const (
	identifyViews = `
		SELECT happening_id, key, evidence,
			ARRAY(SELECT dates FROM carillon.source_tellings t WHERE t.source_id = $1 AND t.happening_id = v.happening_id)
		FROM carillon.source_views v WHERE source_id = $1 AND evidence && $2 ORDER BY happening_id`
	// What nobody remembers is known from the events.
	selectTold = `
		SELECT happening_id, observation, NULL FROM carillon.source_tellings WHERE source_id = $1 AND happening_id = ANY ($2)
		UNION ALL SELECT happening_id, NULL, details FROM items.shown WHERE happening_id = ANY ($2)`
	// What a page tells differently, or no longer, is to be compared.
	keepTellings = `
		WITH n AS (
			SELECT * FROM unnest($3::uuid[], $4::bytea[], $5::bytea[], $6::text[], $7::text[])
				AS n (happening_id, observation, dates, key, evidence)),
		told AS (
			INSERT INTO carillon.source_tellings AS t (source_id, happening_id, page, observation, dates)
			SELECT $1, happening_id, $2, observation, dates FROM n
			ON CONFLICT (source_id, happening_id, page) DO UPDATE SET observation = excluded.observation, dates = excluded.dates,
				dated_at = CASE WHEN t.dates = excluded.dates THEN t.dated_at ELSE excluded.dated_at END
			WHERE t.observation <> excluded.observation
			RETURNING happening_id),
		untold AS (
			DELETE FROM carillon.source_tellings
			WHERE source_id = $1 AND page = $2 AND NOT $8 AND happening_id NOT IN (SELECT happening_id FROM n)
			RETURNING happening_id),
		awaited AS (
			UPDATE carillon.source_views SET waiting = true
			WHERE source_id = $1 AND happening_id IN (SELECT happening_id FROM untold)),
		viewed AS (
			INSERT INTO carillon.source_views AS v (source_id, happening_id, key, evidence, waiting)
			SELECT $1, happening_id, key, evidence::uuid[], true FROM n JOIN told USING (happening_id)
			ON CONFLICT (source_id, happening_id) DO UPDATE SET waiting = true, key = CASE WHEN v.key = '' THEN excluded.key ELSE v.key END,
				evidence = (SELECT array_agg(DISTINCT e) FROM unnest(v.evidence || excluded.evidence) AS e))
		SELECT count(*) FROM untold`
	selectWaiting = `
		SELECT v.happening_id, v.key, v.evidence, v.digest, t.page, t.observation, t.since, t.dated_at FROM (
			SELECT * FROM carillon.source_views v
			WHERE source_id = $1 AND waiting AND restored_at IS NULL%s AND NOT EXISTS (
				SELECT 1 FROM carillon.source_pages p WHERE p.source_id = $1 AND p.ahead AND p.walk = $2 AND p.evidence = ANY (v.evidence))
			LIMIT $3) v
		LEFT JOIN carillon.source_tellings t ON t.source_id = $1 AND t.happening_id = v.happening_id
		ORDER BY v.happening_id, t.page`
	// All that wait, or some happenings of these: to go through all for each page takes the longer, the more pages there are.
	allWaiting  = ""
	someWaiting = " AND happening_id = ANY ($4)"
	settleViews = `
		UPDATE carillon.source_views v SET waiting = false, digest = s.digest
		FROM unnest($2::uuid[], $3::bytea[]) AS s (happening_id, digest) WHERE v.source_id = $1 AND v.happening_id = s.happening_id`
	forgetViews = `DELETE FROM carillon.source_views WHERE source_id = $1 AND happening_id = ANY ($2)`
)

// Identify implements collection.Walk.
func (w *walk) Identify(ctx context.Context, evidence []uuid.UUID) ([]collection.Shown, error) {
	rows, _ := w.pool.Query(ctx, identifyViews, w.source, evidence)
	list, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (s collection.Shown, err error) {
		err = row.Scan(&s.Happening, &s.Key, &s.Evidence, &s.Dates)
		return s, err
	})
	return list, wrap("identify happenings", err)
}

// Told implements collection.Walk.
func (w *walk) Told(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
	rows, _ := w.pool.Query(ctx, selectTold, w.source, happenings)
	told := map[uuid.UUID][]happening.Details{}
	var (
		id                   uuid.UUID
		observation, details []byte
	)
	_, err := pgx.ForEachRow(rows, []any{&id, &observation, &details}, func() (err error) {
		var o collect.Observation
		if observation != nil {
			err = json.Unmarshal(observation, &o)
		} else {
			err = json.Unmarshal(details, &o.Details)
		}
		told[id] = append(told[id], o.Details)
		return err
	})
	return told, wrap("what is told of happenings", err)
}

// tellingRows are tellings as columns.
type tellingRows struct {
	happenings          []uuid.UUID
	observations, dates [][]byte
	keys, evidence      []string
}

func rowsOfTellings(tellings []collection.Telling) (*tellingRows, error) {
	r, have := &tellingRows{}, map[uuid.UUID]bool{}
	for _, t := range tellings {
		if have[t.Happening] {
			continue // the page has it under two keys, of which the first counts
		}
		have[t.Happening] = true
		data, err := json.Marshal(t.Observation)
		if err != nil {
			return nil, wrap("observation", err)
		}
		ids := make([]string, len(t.Evidence))
		for i, e := range t.Evidence {
			ids[i] = e.String()
		}
		r.happenings, r.observations, r.dates = append(r.happenings, t.Happening), append(r.observations, data), append(r.dates, t.Dates)
		r.keys, r.evidence = append(r.keys, storedName(t.Key)), append(r.evidence, "{"+strings.Join(ids, ",")+"}")
	}
	return r, nil
}

// queue keeps what a page tells, and marks what is to be compared. untold is what it told before and tells no longer.
func (r *tellingRows) queue(batch *pgx.Batch, source, page uuid.UUID, partial bool, untold *int) {
	batch.Queue(keepTellings, source, page, nonNil(r.happenings), nonNil(r.observations), nonNil(r.dates), nonNil(r.keys), nonNil(r.evidence), partial).
		QueryRow(func(row pgx.Row) error { return row.Scan(untold) })
}

// Waiting implements collection.Walk.
func (w *walk) Waiting(ctx context.Context) ([]collection.View, error) {
	if found := w.waiting; found != nil {
		w.waiting = nil
		return *found, nil
	}
	if err := w.flush(ctx); err != nil { // what is settled waits no longer
		return nil, err
	}
	rows, _ := w.pool.Query(ctx, fmt.Sprintf(selectWaiting, allWaiting), w.source, w.number, collection.MostWaiting)
	views, err := collectViews(rows)
	return views, wrap("happenings that wait", err)
}

// collectViews reads rows of one telling each, ordered by happening.
func collectViews(rows pgx.Rows) (views []collection.View, err error) {
	var (
		view           collection.View
		page           *uuid.UUID
		data           []byte
		since, datedAt *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&view.Happening, &view.Key, &view.Evidence, &view.Digest, &page, &data, &since, &datedAt}, func() error {
		if len(views) == 0 || views[len(views)-1].Happening != view.Happening {
			views = append(views, view)
		}
		if page == nil {
			return nil // nobody tells of it
		}
		told := collection.Told{Page: *page, Since: timeOf(since), DatedAt: timeOf(datedAt)}
		if err := json.Unmarshal(data, &told.Observation); err != nil {
			return err
		}
		last := &views[len(views)-1]
		last.Tellings = append(last.Tellings, told)
		return nil
	})
	return views, err
}

// Settle implements collection.Walk.
func (w *walk) Settle(_ context.Context, settled []collection.Settled, tally collection.Tally) (err error) {
	w.tally, err = encodeTally(tally)
	w.settled = append(w.settled, settled...)
	return err
}

// flush writes what is settled.
func (w *walk) flush(ctx context.Context) error {
	if len(w.settled) == 0 {
		return nil
	}
	return w.held(ctx, "settle happenings", func(*pgx.Batch) {})
}

func (w *walk) queueSettled(batch *pgx.Batch) {
	if len(w.settled) == 0 {
		return
	}
	var (
		gone, kept []uuid.UUID
		digests    [][]byte
	)
	for _, s := range w.settled {
		if s.Gone {
			gone = append(gone, s.Happening)
			continue
		}
		kept, digests = append(kept, s.Happening), append(digests, s.Digest)
	}
	if len(kept) > 0 {
		batch.Queue(settleViews, w.source, kept, digests)
	}
	if len(gone) > 0 {
		batch.Queue(forgetViews, w.source, gone)
	}
	batch.Queue(keepTally, w.source, w.tally, 0, 0)
}
