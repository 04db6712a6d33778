package adapters

import (
	"context"
	"crypto/sha256"
	"encoding/json"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/command/collect"
	"carillon/command/collection"
)

const (
	identifyViews = `SELECT happening_id, key, evidence FROM carillon.source_views WHERE source_id = $1 AND evidence && $2`
	keepTellings  = `
		INSERT INTO carillon.source_tellings AS t (source_id, happening_id, page, observation, dates)
		SELECT $1, happening_id, $2, observation, dates FROM unnest($3::uuid[], $4::bytea[], $5::bytea[]) AS n (happening_id, observation, dates)
		ON CONFLICT (source_id, happening_id, page) DO UPDATE SET observation = excluded.observation, dates = excluded.dates,
			dated_at = CASE WHEN t.dates = excluded.dates THEN t.dated_at ELSE excluded.dated_at END
		WHERE t.observation <> excluded.observation
		RETURNING happening_id`
	forgetTellings = `
		DELETE FROM carillon.source_tellings WHERE source_id = $1 AND page = $2 AND happening_id <> ALL ($3) RETURNING happening_id`
	keepView = `
		INSERT INTO carillon.source_views AS v (source_id, happening_id, key, evidence, waiting) VALUES ($1, $2, $3, $4, true)
		ON CONFLICT (source_id, happening_id) DO UPDATE SET waiting = true, key = CASE WHEN v.key = '' THEN excluded.key ELSE v.key END,
			evidence = (SELECT array_agg(DISTINCT e) FROM unnest(v.evidence || excluded.evidence) AS e)`
	awaitViews   = `UPDATE carillon.source_views SET waiting = true WHERE source_id = $1 AND happening_id = ANY ($2)`
	waitingViews = `
		SELECT happening_id, key, evidence, digest FROM carillon.source_views v
		WHERE source_id = $1 AND waiting AND restored_at IS NULL AND NOT EXISTS (
			SELECT 1 FROM carillon.source_pages p WHERE p.source_id = $1 AND p.ahead AND p.walk = $2 AND p.evidence = ANY (v.evidence))
		LIMIT $3`
	readTellings = `
		SELECT happening_id, page, observation, since, dated_at FROM carillon.source_tellings
		WHERE source_id = $1 AND happening_id = ANY ($2) ORDER BY happening_id, page`
	settleViews = `
		UPDATE carillon.source_views v SET waiting = false, digest = s.digest
		FROM unnest($2::uuid[], $3::bytea[]) AS s (happening_id, digest) WHERE v.source_id = $1 AND v.happening_id = s.happening_id`
	forgetViews = `DELETE FROM carillon.source_views WHERE source_id = $1 AND happening_id = ANY ($2)`
)

// Identify implements collection.Walk.
func (w *walk) Identify(ctx context.Context, evidence []uuid.UUID) ([]collection.Identity, error) {
	rows, _ := w.pool.Query(ctx, identifyViews, w.source, evidence)
	list, err := pgx.CollectRows(rows, pgx.RowToStructByPos[collection.Identity])
	return list, wrap("identify happenings", err)
}

// tell keeps what a page tells, and marks what is to be compared.
func (w *walk) tell(ctx context.Context, tx pgx.Tx, page uuid.UUID, visited collect.Visited, tellings []collection.Telling) error {
	switch {
	case collect.Gone(visited.Err):
	case visited.Err != nil, visited.Page.Unchanged:
		return nil // it says what it said
	}
	ids, observations, dates := make([]uuid.UUID, 0, len(tellings)), make([][]byte, 0, len(tellings)), make([][]byte, 0, len(tellings))
	views := make(map[uuid.UUID]collection.Identity, len(tellings))
	for _, t := range tellings {
		if _, twice := views[t.Happening]; twice {
			continue // the page has it under two keys, of which the first counts
		}
		data, err := json.Marshal(t.Observation)
		if err != nil {
			return wrap("observation", err)
		}
		instances, err := json.Marshal(t.Observation.Details.Instances)
		if err != nil {
			return wrap("dates of observation", err)
		}
		digest := sha256.Sum256(instances)
		ids, observations, dates = append(ids, t.Happening), append(observations, data), append(dates, digest[:8])
		views[t.Happening] = t.Identity
	}
	rows, _ := tx.Query(ctx, keepTellings, w.source, page, ids, observations, dates)
	changed, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	var batch pgx.Batch
	for _, id := range changed {
		batch.Queue(keepView, w.source, id, storedName(views[id].Key), views[id].Evidence)
	}
	if !visited.Page.Partial {
		var forgotten []uuid.UUID
		rows, _ := tx.Query(ctx, forgetTellings, w.source, page, ids)
		if forgotten, err = pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]); err != nil {
			return err
		}
		batch.Queue(awaitViews, w.source, forgotten)
	}
	return tx.SendBatch(ctx, &batch).Close()
}

// Waiting implements collection.Walk.
func (w *walk) Waiting(ctx context.Context, limit int) ([]collection.View, error) {
	rows, _ := w.pool.Query(ctx, waitingViews, w.source, w.number, limit)
	views, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (v collection.View, err error) {
		return v, row.Scan(&v.Happening, &v.Key, &v.Evidence, &v.Digest)
	})
	if err != nil || len(views) == 0 {
		return nil, wrap("happenings that wait", err)
	}
	ids, byID := make([]uuid.UUID, len(views)), map[uuid.UUID]*collection.View{}
	for i := range views {
		ids[i], byID[views[i].Happening] = views[i].Happening, &views[i]
	}
	rows, _ = w.pool.Query(ctx, readTellings, w.source, ids)
	var (
		id   uuid.UUID
		told collection.Told
		data []byte
	)
	_, err = pgx.ForEachRow(rows, []any{&id, &told.Page, &data, &told.Since, &told.DatedAt}, func() error {
		told.Observation = collect.Observation{}
		if err := json.Unmarshal(data, &told.Observation); err != nil {
			return err
		}
		told.Since, told.DatedAt = told.Since.UTC(), told.DatedAt.UTC()
		byID[id].Tellings = append(byID[id].Tellings, told)
		return nil
	})
	return views, wrap("what is told of happenings", err)
}

// Settle implements collection.Walk.
func (w *walk) Settle(ctx context.Context, settled []collection.Settled, tally collection.Tally) error {
	encoded, err := encodeTally(tally)
	if err != nil {
		return err
	}
	var (
		gone, kept []uuid.UUID
		digests    [][]byte
	)
	for _, s := range settled {
		if s.Gone {
			gone = append(gone, s.Happening)
			continue
		}
		kept, digests = append(kept, s.Happening), append(digests, s.Digest)
	}
	return w.fenced(ctx, "settle happenings", func(tx pgx.Tx) error {
		var batch pgx.Batch
		batch.Queue(settleViews, w.source, nonNil(kept), nonNil(digests))
		batch.Queue(forgetViews, w.source, nonNil(gone))
		batch.Queue(keepTally, w.source, encoded, 0, 0)
		return tx.SendBatch(ctx, &batch).Close()
	})
}
