package items

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
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
	wanted      map[uuid.UUID]*wanted // by feed

	dirty     map[uuid.UUID]int64 // items to be rendered, and the place of the last event that changed each
	removed   map[uuid.UUID]uuid.UUID
	feedback  []feedback
	forgotten []*view                 // to be deleted
	former    map[membership]struct{} // that end
	merged    map[uuid.UUID]uuid.UUID // into which one; zero for none any more
}

// view is a happening as a source shows it.
type view struct {
	happening.Sighting

	happening     uuid.UUID
	content       *content
	staleAt       *time.Time
	toldAt        time.Time
	dirty, stored bool
}

// row is an item.
type row struct {
	id, feed, happening uuid.UUID
	addedAt             time.Time
	stored              bool // in the table
}

type attachment struct{ feed, source uuid.UUID }

// membership is a happening in a feed.
type membership struct{ happening, feed uuid.UUID }

type feedback struct {
	item  uuid.UUID
	given item.FeedbackGiven
}

func newWork() *work {
	return &work{
		views:       map[uuid.UUID][]*view{},
		items:       map[uuid.UUID]*row{},
		ofHappening: map[uuid.UUID][]uuid.UUID{},
		attached:    map[attachment]struct{}{},
		wanted:      map[uuid.UUID]*wanted{},
		merged:      map[uuid.UUID]uuid.UUID{},
		dirty:       map[uuid.UUID]int64{},
		removed:     map[uuid.UUID]uuid.UUID{},
		former:      map[membership]struct{}{},
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

// planByIndex keeps the planner from going through whole tables: a table that has just begun to fill looks small to it.
const planByIndex = "SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', " +
	"'force_generic_plan', true)"

// load reads views of happenings, items by id and by happening, and the attachments and wanted stems of feeds, those of
// the items included.
func (w *work) load(ctx context.Context, tx pgx.Tx, happenings, items, feeds column.UUIDs) error {
	batch := &pgx.Batch{}
	batch.Queue(planByIndex)
	batch.Queue("SELECT "+shownColumns+" FROM shown WHERE happening_id = ANY($1)",
		happenings).Query(w.readViews)
	batch.Queue(`SELECT id, feed_id, happening_id, added_at FROM items WHERE happening_id = ANY($1)
		UNION SELECT id, feed_id, happening_id, added_at FROM items WHERE id = ANY($2)`, happenings, items).Query(w.readItems)
	w.queueFeeds(batch, feeds)
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	others := map[uuid.UUID]struct{}{}
	for _, r := range w.items {
		if !slices.Contains(feeds, r.feed) {
			others[r.feed] = struct{}{}
		}
	}
	if len(others) == 0 {
		return nil // most views are new
	}
	batch = &pgx.Batch{}
	w.queueFeeds(batch, keys(others))
	return tx.SendBatch(ctx, batch).Close()
}

func (w *work) queueFeeds(batch *pgx.Batch, feeds column.UUIDs) {
	if len(feeds) == 0 {
		return
	}
	batch.Queue("SELECT feed_id, source_id FROM attachments WHERE feed_id = ANY($1)", feeds).Query(w.readAttachments)
	batch.Queue("SELECT feed_id, language, by_name, by_description FROM wanted WHERE feed_id = ANY($1)", feeds).
		Query(w.readWanted)
}

func (w *work) readViews(rows pgx.Rows) error {
	for rows.Next() {
		v := &view{stored: true, content: &content{}}
		if err := rows.Scan(column.UUID(&v.happening), column.UUID(&v.SourceID), column.UUID(&v.Of), &v.content.details,
			&v.content.block, &v.PublishedAt,
			&v.Standing, &v.content.origins, &v.staleAt, &v.Since, &v.DatedAt, &v.toldAt); err != nil {
			return err
		}
		v.Stale = v.staleAt != nil
		if err := errors.Join(json.Unmarshal(v.content.details, &v.Details), json.Unmarshal(v.content.block, &v.Source),
			json.Unmarshal(v.content.origins, &v.Origins)); err != nil {
			return fmt.Errorf("view of %s on %s: %w", v.SourceID, v.happening, err)
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
		v := w.view(f.id, e.SourceID, e.Of)
		v.Observe(e)
		w.setContent(v, f, e.At)
	case happening.Revised:
		v := w.view(f.id, e.SourceID, e.Of)
		v.Revise(e)
		w.setContent(v, f, e.At)
	case happening.WentStale:
		v := w.view(f.id, e.SourceID, e.Of)
		v.Stale, v.staleAt, v.dirty = true, &e.At, true
		w.touch(f.id, f.sequence)
	case happening.OccurrenceChanged: // follows from the others
	case happening.Merged:
		if e.Into != uuid.Nil {
			w.merged[f.id] = e.Into
		}
	case happening.Split:
		if e.Into != uuid.Nil {
			w.merged[f.id] = uuid.Nil
			break
		}
		w.forget(f, append(e.Members, e.From))
	}
}

func (w *work) applyItem(f fact, event item.Event) {
	switch e := event.(type) {
	case item.Added:
		known := w.items[f.id]
		w.put(&row{
			id:        f.id,
			feed:      e.FeedID,
			happening: e.HappeningID,
			addedAt:   e.At,
			stored:    known != nil && known.stored,
		})
		delete(w.removed, f.id)
		w.dirty[f.id] = f.sequence
	case item.Removed:
		w.former[membership{e.HappeningID, e.FeedID}] = struct{}{}
		w.remove(f.id)
	case item.FeedbackGiven:
		w.feedback = append(w.feedback, feedback{item: f.id, given: e})
	}
}

func (w *work) view(id, source, of uuid.UUID) *view {
	for _, v := range w.views[id] {
		if v.SourceID == source && v.Of == of {
			return v
		}
	}
	v := &view{Sighting: happening.Sighting{SourceID: source, Of: of}, happening: id, content: emptyContent}
	w.views[id] = append(w.views[id], v)
	return v
}

func (w *work) setContent(v *view, f fact, at time.Time) {
	v.content, v.staleAt, v.toldAt, v.dirty = f.content, nil, at, true
	w.touch(f.id, f.sequence)
}

// forget drops the views of a happening as of others.
func (w *work) forget(f fact, others []uuid.UUID) {
	w.views[f.id] = slices.DeleteFunc(w.views[f.id], func(v *view) bool {
		gone := slices.Contains(others, v.Of)
		if gone && v.stored {
			w.forgotten = append(w.forgotten, v)
		}
		return gone
	})
	w.touch(f.id, f.sequence)
}

// touch has the items of a happening rendered again, which an event at a place in the log changes.
func (w *work) touch(id uuid.UUID, sequence int64) {
	for _, itemID := range w.ofHappening[id] {
		if _, gone := w.removed[itemID]; !gone {
			w.dirty[itemID] = sequence
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

// pick returns the combined view of a happening, and of the feed's sources the one that it is shown from; false if none
// of them carries it.
func (w *work) pick(r *row) (all happening.Combined, from *happening.Sighting, ok bool) {
	views := w.views[r.happening]
	sightings := make([]happening.Sighting, len(views))
	var attached []happening.Sighting
	for i, v := range views {
		sightings[i] = v.Sighting
		if _, ok := w.attached[attachment{r.feed, v.SourceID}]; ok {
			attached = append(attached, v.Sighting)
		}
	}
	if len(attached) == 0 {
		return happening.Combined{}, nil, false
	}
	return happening.Combine(sightings), &attached[happening.Best(attached)], true
}
