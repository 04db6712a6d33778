package items

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/projections/column"
)

// work is the part of the read model that some facts concern, in memory.
type work struct {
	views       map[uuid.UUID][]*view // of a happening, by source
	items       map[uuid.UUID]*row
	ofHappening map[uuid.UUID][]uuid.UUID // items of a happening
	attached    map[attachment]struct{}

	dirty    map[uuid.UUID]struct{} // items to be rendered
	removed  map[uuid.UUID]uuid.UUID
	feedback []feedback
}

// view is a happening as a source shows it.
type view struct {
	happening, source uuid.UUID
	details           happening.Details
	block             happening.Block
	publishedAt       *time.Time
	stale             bool
	changed           int64 // position of the event
	dirty, stored     bool
}

// row is an item.
type row struct {
	id, feed, happening uuid.UUID
	addedAt             time.Time
	stored              bool // in the table
}

type attachment struct{ feed, source uuid.UUID }

type feedback struct {
	item  uuid.UUID
	given item.FeedbackGiven
}

func newWork() *work {
	return &work{
		views: map[uuid.UUID][]*view{}, items: map[uuid.UUID]*row{}, ofHappening: map[uuid.UUID][]uuid.UUID{},
		attached: map[attachment]struct{}{}, dirty: map[uuid.UUID]struct{}{}, removed: map[uuid.UUID]uuid.UUID{},
	}
}

// load reads what the facts concern.
func load(ctx context.Context, tx pgx.Tx, facts []fact) (*work, error) {
	happenings, items, feeds := map[uuid.UUID]struct{}{}, map[uuid.UUID]struct{}{}, map[uuid.UUID]struct{}{}
	for _, f := range facts {
		switch event := f.event.(type) {
		case item.Event:
			switch e := event.(type) {
			case item.Added:
				happenings[e.HappeningID], items[f.id], feeds[e.FeedID] = struct{}{}, struct{}{}, struct{}{}
			case item.Removed:
				items[f.id] = struct{}{}
			case item.FeedbackGiven: // needs no row
			}
		case happening.Event:
			happenings[f.id] = struct{}{}
		}
	}
	w := newWork()
	err := w.load(ctx, tx, keys(happenings), keys(items), keys(feeds))
	return w, err
}

// load reads views of happenings, items by id and by happening, and the attachments of feeds, those of the items
// included.
func (w *work) load(ctx context.Context, tx pgx.Tx, happenings, items, feeds column.UUIDs) error {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT happening_id, source_id, details, source, published_at, stale, changed FROM shown WHERE happening_id = ANY($1)`,
		happenings).Query(w.readViews)
	batch.Queue(`SELECT id, feed_id, happening_id, added_at FROM items WHERE happening_id = ANY($1)
		UNION SELECT id, feed_id, happening_id, added_at FROM items WHERE id = ANY($2)`, happenings, items).Query(w.readItems)
	batch.Queue(`SELECT feed_id, source_id FROM attachments WHERE feed_id = ANY($1)
		OR feed_id IN (SELECT feed_id FROM items WHERE happening_id = ANY($2))`, feeds, happenings).Query(w.readAttachments)
	return tx.SendBatch(ctx, batch).Close()
}

func (w *work) readViews(rows pgx.Rows) error {
	for rows.Next() {
		v := &view{stored: true}
		var details, block []byte
		if err := rows.Scan(column.UUID(&v.happening), column.UUID(&v.source), &details, &block, &v.publishedAt, &v.stale, &v.changed); err != nil {
			return err
		}
		if err := json.Unmarshal(details, &v.details); err != nil {
			return fmt.Errorf("details of %s: %w", v.happening, err)
		}
		if err := json.Unmarshal(block, &v.block); err != nil {
			return fmt.Errorf("source of %s: %w", v.happening, err)
		}
		w.views[v.happening] = append(w.views[v.happening], v)
	}
	return rows.Err()
}

func (w *work) readItems(rows pgx.Rows) error {
	for rows.Next() {
		r := &row{stored: true}
		if err := rows.Scan(column.UUID(&r.id), column.UUID(&r.feed), column.UUID(&r.happening), &r.addedAt); err != nil {
			return err
		}
		w.put(r)
	}
	return rows.Err()
}

func (w *work) readAttachments(rows pgx.Rows) error {
	for rows.Next() {
		var a attachment
		if err := rows.Scan(column.UUID(&a.feed), column.UUID(&a.source)); err != nil {
			return err
		}
		w.attached[a] = struct{}{}
	}
	return rows.Err()
}

func (w *work) put(r *row) {
	if w.items[r.id] == nil {
		w.ofHappening[r.happening] = append(w.ofHappening[r.happening], r.id)
	}
	w.items[r.id] = r
}

// apply folds one fact.
func (w *work) apply(f fact) {
	switch event := f.event.(type) {
	case happening.Event:
		w.applyHappening(f, event)
	case item.Event:
		w.applyItem(f, event)
	}
}

func (w *work) applyHappening(f fact, event happening.Event) {
	switch e := event.(type) {
	case happening.Observed:
		v := w.view(f.id, e.SourceID)
		v.publishedAt = e.PublishedAt
		w.show(v, f.position, e.Details, e.Source)
	case happening.Revised:
		w.show(w.view(f.id, e.SourceID), f.position, e.Details, e.Source)
	case happening.WentStale:
		v := w.view(f.id, e.SourceID)
		v.stale, v.dirty = true, true
		w.touch(f.id)
	case happening.OccurrenceChanged: // follows from the others
	}
}

func (w *work) applyItem(f fact, event item.Event) {
	switch e := event.(type) {
	case item.Added:
		known := w.items[f.id]
		w.put(&row{id: f.id, feed: e.FeedID, happening: e.HappeningID, addedAt: e.At, stored: known != nil && known.stored})
		delete(w.removed, f.id)
		w.dirty[f.id] = struct{}{}
	case item.Removed:
		w.remove(f.id)
	case item.FeedbackGiven:
		w.feedback = append(w.feedback, feedback{item: f.id, given: e})
	}
}

func (w *work) view(id, source uuid.UUID) *view {
	for _, v := range w.views[id] {
		if v.source == source {
			return v
		}
	}
	v := &view{happening: id, source: source}
	w.views[id] = append(w.views[id], v)
	return v
}

func (w *work) show(v *view, position int64, details happening.Details, block happening.Block) {
	v.details, v.block, v.stale, v.changed, v.dirty = details, block, false, position, true
	w.touch(v.happening)
}

// touch has the items of a happening rendered anew.
func (w *work) touch(id uuid.UUID) {
	for _, itemID := range w.ofHappening[id] {
		if _, gone := w.removed[itemID]; !gone {
			w.dirty[itemID] = struct{}{}
		}
	}
}

func (w *work) remove(id uuid.UUID) {
	r := w.items[id]
	if r == nil {
		return // it went with its source, or its feed
	}
	w.removed[id] = r.feed
	delete(w.dirty, id)
}

// pick chooses the view that an item shows; nil where no source of its feed carries it.
func (w *work) pick(r *row) *view {
	var best *view
	for _, v := range w.views[r.happening] {
		if _, attached := w.attached[attachment{r.feed, v.source}]; !attached {
			continue
		}
		if best == nil || best.stale && !v.stale || best.stale == v.stale && best.changed < v.changed {
			best = v
		}
	}
	return best
}
