package adapters

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/projections/column"
)

const (
	identifyViews = `
		SELECT happening_id, key, evidence,
			ARRAY(SELECT dates FROM carillon.source_tellings t WHERE t.source_id = $1 AND t.happening_id = v.happening_id),
			NOT EXISTS (SELECT FROM carillon.source_tellings t
				WHERE t.source_id = $1 AND t.happening_id = v.happening_id AND t.page <> $3)
		FROM carillon.source_views v WHERE source_id = $1 AND evidence && $2 ORDER BY happening_id`
	restoredViews = `
		SELECT happening_id, key, evidence, '{}'::bytea[], true FROM carillon.source_views v
		WHERE source_id = $1 AND restored_at IS NOT NULL AND NOT EXISTS (
			SELECT FROM carillon.source_tellings t WHERE t.source_id = $1 AND t.happening_id = v.happening_id)
		ORDER BY happening_id`
	// Forgotten views are read from the events.
	selectDetails = `
		SELECT happening_id, observation, NULL FROM carillon.source_tellings WHERE source_id = $1 AND happening_id = %[1]s
		UNION ALL SELECT happening_id, NULL, details FROM items.shown WHERE happening_id = %[1]s`
	// Changed and missing happenings of a page are to be compared. So are new ones, but these need no mark unless they
	// have to wait: the visit has them at hand, and the page lists them if that is cut off.
	keepSightings = `
		WITH n AS (
			SELECT happening_id, substr($4::bytea, place, length) AS observation, dates, key, evidence::uuid[], digest
			FROM unnest($3::uuid[], $12::integer[], $13::integer[], $5::bytea[], $6::text[], $7::text[], $10::bytea[])
				AS n (happening_id, place, length, dates, key, evidence, digest)),
		kept AS (
			INSERT INTO carillon.source_tellings AS t (source_id, happening_id, page, observation, dates, since, dated_at)
			SELECT $1, happening_id, $2, observation, dates, statement_timestamp(), statement_timestamp() FROM n
			ON CONFLICT (source_id, happening_id, page) DO UPDATE SET observation = excluded.observation, dates = excluded.dates,
				dated_at = CASE WHEN t.dates = excluded.dates THEN t.dated_at ELSE excluded.dated_at END
			WHERE t.observation <> excluded.observation
			RETURNING happening_id),
		dropped AS (
			DELETE FROM carillon.source_tellings
			WHERE source_id = $1 AND page = $2 AND NOT $8 AND happening_id NOT IN (SELECT happening_id FROM n)
			RETURNING happening_id),
		awaited AS (
			UPDATE carillon.source_views SET waiting = true
			WHERE source_id = $1 AND happening_id IN (SELECT happening_id FROM dropped)),
		new AS (
			SELECT happening_id, key, evidence, digest, digest IS NULL OR evidence && ARRAY(
				SELECT p.evidence FROM carillon.source_pages p WHERE p.source_id = $1 AND p.ahead AND p.walk = $9
				AND p.evidence = ANY ($11)) AS waiting
			FROM n WHERE (happening_id IN (SELECT happening_id FROM kept)) IS TRUE),
		viewed AS (
			INSERT INTO carillon.source_views AS v (source_id, happening_id, key, evidence, waiting, digest)
			SELECT $1, happening_id, key, evidence, waiting, CASE WHEN NOT waiting THEN digest END FROM new
			ON CONFLICT (source_id, happening_id) DO UPDATE SET waiting = true, key = CASE WHEN v.key = '' THEN excluded.key
			ELSE v.key END,
				evidence = CASE WHEN v.happening_id = ANY ($14) THEN excluded.evidence
					ELSE (SELECT array_agg(DISTINCT e) FROM unnest(v.evidence || excluded.evidence) AS e) END
			RETURNING happening_id, waiting)
		SELECT (SELECT count(*) FROM dropped), ARRAY(SELECT happening_id FROM viewed WHERE waiting)`
	// Leftovers of a visit that was cut off: they may be recorded or not.
	markLeft = `
		UPDATE carillon.source_views v SET waiting = true, digest = NULL FROM carillon.source_tellings t
		WHERE t.source_id = $1 AND t.page = $2 AND v.source_id = $1 AND v.happening_id = t.happening_id`
	selectWaiting = `
		SELECT v.happening_id, v.key, v.evidence, v.digest, t.page, t.observation, t.since, t.dated_at FROM (
			SELECT * FROM carillon.source_views v
			WHERE source_id = $1 AND waiting AND restored_at IS NULL%s AND NOT EXISTS (
				SELECT 1 FROM carillon.source_pages p WHERE p.source_id = $1 AND p.ahead AND p.walk = $2
				AND (p.evidence = ANY (v.evidence) OR NOT EXISTS (SELECT FROM carillon.source_tellings t
					WHERE t.source_id = $1 AND t.happening_id = v.happening_id)))
			LIMIT $3) v
		LEFT JOIN carillon.source_tellings t ON t.source_id = $1 AND t.happening_id = v.happening_id
		ORDER BY v.happening_id, t.page`
	// All that wait, or some happenings of these: to go through all for each page takes the longer, the more pages there
	// are.
	allWaiting  = ""
	someWaiting = " AND happening_id = ANY ($4)"
	settleViews = `
		UPDATE carillon.source_views v SET waiting = false, digest = s.digest
		FROM unnest($2::uuid[], $3::bytea[]) AS s (happening_id, digest) WHERE v.source_id = $1
		AND v.happening_id = s.happening_id`
	forgetViews = `DELETE FROM carillon.source_views WHERE source_id = $1 AND happening_id = ANY ($2)`
)

// Identify implements visiting.Walk.
func (w *walk) Identify(ctx context.Context, page collect.Known, evidence []uuid.UUID) ([]visiting.Shown, error) {
	rows, _ := w.pool.Query(ctx, identifyViews, w.source, evidence, visiting.PageID(page.Address))
	list, err := pgx.CollectRows(rows, scanShown)
	return list, wrap("identify happenings", err)
}

// Restored implements visiting.Walk.
func (w *walk) Restored(ctx context.Context) (list []visiting.Shown, err error) {
	if !w.nothingRestored {
		rows, _ := w.pool.Query(ctx, restoredViews, w.source)
		list, err = pgx.CollectRows(rows, scanShown)
		w.nothingRestored = err == nil && len(list) == 0
	}
	return list, wrap("restored happenings", err)
}

func scanShown(row pgx.CollectableRow) (s visiting.Shown, err error) {
	err = row.Scan(&s.Happening, &s.Key, &s.Evidence, &s.Dates, &s.Here)
	return s, err
}

// DetailsOf implements visiting.Walk.
func (w *walk) DetailsOf(ctx context.Context, happenings []uuid.UUID) (map[uuid.UUID][]happening.Details, error) {
	var rows pgx.Rows
	if len(happenings) == 1 { // as of most pages; such a statement is planned once
		rows, _ = w.pool.Query(ctx, fmt.Sprintf(selectDetails, "$2"), w.source, happenings[0])
	} else {
		rows, _ = w.pool.Query(ctx, fmt.Sprintf(selectDetails, "ANY ($2)"), w.source, column.UUIDs(happenings))
	}
	all := map[uuid.UUID][]happening.Details{}
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
		all[id] = append(all[id], o.Details)
		return err
	})
	return all, wrap("views of happenings", err)
}

// sightingRows are sightings as columns. Of those that are new to the source there is a digest.
type sightingRows struct {
	happenings      []uuid.UUID
	observations    bytes.Buffer // one behind the other: as an array they would be copied several times over
	places, lengths []int
	dates, digests  [][]byte
	keys, evidence  []string
	all             column.UUIDs    // evidence of those with a digest
	rekeyed         column.UUIDs    // of the happenings, those whose evidence is replaced
	fresh           []visiting.View // those
}

func (w *walk) rowsOfSightings(page uuid.UUID, sightings []visiting.Sighting) (*sightingRows, error) {
	r, have := &sightingRows{}, map[uuid.UUID]bool{}
	encoder := json.NewEncoder(&r.observations)
	var origins []collect.Origin
	for i := range sightings {
		t := &sightings[i]
		if have[t.Happening] {
			continue // the page has it under two keys, of which the first counts
		}
		have[t.Happening] = true
		if t.Rekeyed {
			r.rekeyed = append(r.rekeyed, t.Happening)
		}
		remembered := t.Observation
		origins = origins[:0]
		for _, o := range remembered.Origins { // it is for people who try a source
			origins = append(origins, collect.Origin{
				Field:  o.Field,
				Page:   o.Page,
				Syntax: o.Syntax,
				Path:   o.Path,
			})
		}
		remembered.Origins = origins
		begins := r.observations.Len()
		if err := encoder.Encode(remembered); err != nil {
			return nil, wrap("observation", err)
		}
		data := r.observations.Bytes()[begins:]
		ids := make([]byte, 0, 37*len(t.Evidence)+1)
		for _, e := range t.Evidence {
			ids = append(append(ids, ','), e.String()...)
		}
		var digest []byte
		var err error
		// Values that JSON can't represent are compared as read back.
		if t.New && !bytes.Contains(data, []byte(`\ufffd`)) {
			if digest, err = happening.Digest(t.Observation.Details, t.Observation.Source, t.Observation.Standing); err != nil {
				return nil, wrap("digest", err)
			}
			r.all = append(r.all, t.Evidence...)
			stored := *t
			stored.Page = page
			r.fresh = append(r.fresh, visiting.View{Identity: t.Identity, Now: digest, Sightings: []visiting.Sighting{stored}})
		}
		r.happenings, r.places, r.lengths = append(r.happenings, t.Happening), append(r.places, begins+1), append(r.lengths,
			len(data)-len("\n"))
		r.dates, r.digests = append(r.dates, t.Dates), append(r.digests, digest)
		r.keys, r.evidence = append(r.keys, storedName(t.Key)), append(r.evidence,
			"{"+strings.TrimPrefix(string(ids), ",")+"}")
	}
	return r, nil
}

// keptSightings is the result of storing the views of a page.
type keptSightings struct {
	dropped int         // number of happenings that it no longer shows
	waiting []uuid.UUID // to be compared, as soon as no page is ahead that may show more
}

// queue stores the views of a page, and marks those to be compared.
func (r *sightingRows) queue(batch *pgx.Batch, source, page uuid.UUID, partial bool, walk int, kept *keptSightings) {
	batch.Queue(keepSightings, source, page, column.UUIDs(nonNil(r.happenings)), nonNil(r.observations.Bytes()),
		nonNil(r.dates), nonNil(r.keys), nonNil(r.evidence), partial,
		walk, nonNil(r.digests), column.UUIDs(nonNil(r.all)), nonNil(r.places), nonNil(r.lengths),
		column.UUIDs(nonNil(r.rekeyed))).
		QueryRow(func(row pgx.Row) error { return row.Scan(&kept.dropped, &kept.waiting) })
}

// settling has the views of a page, which are new to the source, compared next, but those that wait for another page.
func (w *walk) settling(views []visiting.View, waiting []uuid.UUID) {
	w.unsettled = make(map[uuid.UUID]struct{}, len(views))
	for _, v := range views {
		if !slices.Contains(waiting, v.Happening) {
			w.waiting, w.unsettled[v.Happening] = append(w.waiting, v), struct{}{}
		}
	}
	if len(w.unsettled) == 0 {
		w.fresh = uuid.Nil
	}
}

// Waiting implements visiting.Walk.
func (w *walk) Waiting(ctx context.Context) ([]visiting.View, error) {
	if !w.known {
		if err := w.flush(ctx); err != nil { // settled happenings wait no longer
			return nil, err
		}
		rows, _ := w.pool.Query(ctx, fmt.Sprintf(selectWaiting, allWaiting), w.source, w.number, visiting.MaxWaiting)
		views, err := collectViews(rows)
		if err != nil {
			return nil, wrap("happenings that wait", err)
		}
		w.waiting = append(w.waiting, views...)
	}
	n := min(len(w.waiting), visiting.MaxWaiting)
	some := w.waiting[:n:n]
	w.waiting = w.waiting[n:]
	w.known = len(w.waiting) > 0
	return some, nil
}

// collectViews reads rows of one sighting each, ordered by happening.
func collectViews(rows pgx.Rows) (views []visiting.View, err error) {
	var (
		view           visiting.View
		page           *uuid.UUID
		data           []byte
		since, datedAt *time.Time
	)
	_, err = pgx.ForEachRow(rows, []any{&view.Happening, &view.Key, &view.Evidence, &view.Digest, &page, &data, &since,
		&datedAt}, func() error {
		if len(views) == 0 || views[len(views)-1].Happening != view.Happening {
			views = append(views, view)
		}
		if page == nil {
			return nil // no page shows it
		}
		stored := visiting.Sighting{Page: *page, Since: timeOf(since), DatedAt: timeOf(datedAt)}
		if err := json.Unmarshal(data, &stored.Observation); err != nil {
			return err
		}
		last := &views[len(views)-1]
		last.Sightings = append(last.Sightings, stored)
		return nil
	})
	return views, err
}

// Settle implements visiting.Walk.
func (w *walk) Settle(_ context.Context, settled []visiting.Settled, tally visiting.Tally) (err error) {
	for _, s := range settled {
		if _, fresh := w.unsettled[s.Happening]; fresh {
			delete(w.unsettled, s.Happening) // it is stored in this form
		} else {
			w.settled = append(w.settled, s)
		}
	}
	if len(w.unsettled) == 0 && !w.left {
		w.fresh = uuid.Nil
	}
	w.tally, err = encodeTally(tally)
	return err
}

// flush writes what is settled, and marks what a visit before has left.
func (w *walk) flush(ctx context.Context) error {
	if w.tally == nil && !w.left {
		return nil
	}
	now, left := step{fresh: w.fresh}, w.fresh
	if w.left {
		now.fresh = uuid.Nil
	}
	return w.held(ctx, "settle happenings", now, func(batch *pgx.Batch) {
		if w.left {
			batch.Queue(markLeft, w.source, left)
		}
	})
}

func (w *walk) queueSettled(batch *pgx.Batch) {
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
}
