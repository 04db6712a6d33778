// Package items is the read model of the items of feeds, as lists and details return them.
//
//	happening events ──▶ shown ────┐
//	feed events ──▶ attachments ───┼──▶ view of the happening ──render──▶ items, occurrences
//	item events ──▶ items ─────────┘
//	feed events ──▶ wanted ─────────▶ relevance
//
// An item shows the combined view of all sources, see happening.Combine. Its source block is of the first of the feed's
// own sources. When a source is detached, or a feed deleted, the items that go are gone at once; that they were removed
// is recorded later, by the process manager.
package items

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/eventstore/panics"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed schema.sql
var schema string

// ReadModel is the read model of the items of feeds.
var ReadModel = projections.ReadModel{
	Name:    "items",
	Version: 5, // 3: times with six fraction digits; 4: ends of occurrences; 5: retirement
	Schema:  schema,
	Filter: eventstore.Categories(item.Aggregate.Category, happening.Aggregate.Category, feed.Aggregate.Category,
		retirement.Aggregate.Category),
	Unverified: map[string][]string{"feeds": {"version"}}, // numbers of transactions
	Project: func(ctx context.Context, tx pgx.Tx, events []eventstore.Recorded) error {
		return begin(events, false)(ctx, tx)
	},
	// In a build an item is nearly always added in the same batch in which its happening was observed, so that its words
	// can be read beforehand.
	Prepare: func(events []eventstore.Recorded) func(context.Context, pgx.Tx) error {
		return begin(events, true)
	},
	DeferredIndexes: []string{"occurrences_in_order", "occurrences_by_end", "occurrences_long", "occurrences_ending"},
}

// fact is a decoded event of a happening or an item.
type fact struct {
	id       uuid.UUID
	event    any      // happening.Event or item.Event
	content  *content // of the event, if it has one
	sequence int64    // its place in the log
}

// content is a source's view, as it is stored.
type content struct {
	details, block, origins []byte
	words                   *text // that items which show it alone are ranked by; nil if they were not read
}

// decoded is a fact, the event of a feed or a retirement, or why it is none of them.
type decoded struct {
	fact
	of      feed.Event
	retired *retired
	err     error
}

// begin decodes a batch and does what needs no rows, and returns what applies it.
func begin(events []eventstore.Recorded, read bool) func(ctx context.Context, tx pgx.Tx) error {
	all := make([]decoded, len(events))
	parallel(len(events), func(i int) {
		d := &all[i]
		if *d = decode(&events[i]); d.err == nil {
			d.err = d.prepare(read)
		}
	})
	return func(ctx context.Context, tx pgx.Tx) error { return project(ctx, tx, all) }
}

// project applies a batch. Events of feeds and retirements may concern many rows and are rare: they divide the batch,
// and the events between two of them are folded in memory.
func project(ctx context.Context, tx pgx.Tx, all []decoded) error {
	var facts []fact
	for i := range all {
		d := &all[i]
		if d.err != nil {
			return d.err
		}
		if d.event != nil {
			facts = append(facts, d.fact)
			continue
		}
		if d.retired == nil && (d.of == nil || !concerns(d.of)) {
			continue
		}
		if err := apply(ctx, tx, facts); err != nil {
			return fmt.Errorf("items: %w", err)
		}
		facts = facts[:0]
		if err := d.apply(ctx, tx); err != nil {
			return fmt.Errorf("items: %w", err)
		}
	}
	if err := apply(ctx, tx, facts); err != nil {
		return fmt.Errorf("items: %w", err)
	}
	return nil
}

// parallel does something for each of n numbers; for many of them, on all processors: a rebuild waits for little else.
func parallel(count int, do func(i int)) {
	const few = 64
	at := atomic.Int64{}
	work := func() {
		for from := at.Add(few) - few; from < int64(count); from = at.Add(few) - few {
			for i := from; i < min(from+few, int64(count)); i++ {
				do(int(i))
			}
		}
	}
	var others errgroup.Group
	for range min(runtime.GOMAXPROCS(0), (count+few-1)/few) - 1 {
		others.Go(panics.Task("build of items", func() error { work(); return nil }))
	}
	work()
	if err := others.Wait(); err != nil {
		panic(err) // what they were to do is not done
	}
}

func decode(recorded *eventstore.Recorded) (d decoded) {
	d.id, d.sequence = recorded.StreamID(), projections.Sequence(recorded)
	switch recorded.Category() {
	case feed.Aggregate.Category:
		d.of, d.err = feed.Events.Decode(recorded)
	case happening.Aggregate.Category:
		d.event, d.err = happening.Events.Decode(recorded)
	case retirement.Aggregate.Category:
		d.retired, d.err = decodeRetired(recorded)
	default:
		d.event, d.err = item.Events.Decode(recorded)
	}
	return d
}

// apply applies what is no fact.
func (d *decoded) apply(ctx context.Context, tx pgx.Tx) error {
	if d.retired != nil {
		return d.retired.apply(ctx, tx)
	}
	return applyFeed(ctx, tx, d.id, d.of, d.sequence)
}

// emptyContent is the view of a source without observations.
var emptyContent = &content{
	details: []byte(`{"title":"","time":{}}`),
	block:   []byte(`{"type":""}`),
	origins: []byte("null"),
}

// prepare makes the stored form of a fact's view and, if asked to, reads its words.
func (f *fact) prepare(read bool) error {
	switch e := f.event.(type) {
	case happening.Observed:
		return f.encode(&e.Details, &e.Source, e.Origins, read)
	case happening.Revised:
		return f.encode(&e.Details, &e.Source, e.Origins, read)
	}
	return nil
}

func (f *fact) encode(
	details *happening.Details, source *happening.Block, origins []happening.Origin, read bool,
) error {
	var errs [3]error
	f.content = &content{}
	f.content.details, errs[0] = json.Marshal(details)
	f.content.block, errs[1] = json.Marshal(source)
	f.content.origins, errs[2] = json.Marshal(origins)
	if read {
		words := textOf(details)
		f.content.words = &words
	}
	return errors.Join(errs[:]...)
}

// concerns reports that an event of a feed changes what items there are, or how they are ranked.
func concerns(event feed.Event) bool {
	switch event.(type) {
	case feed.Created, feed.Revised, feed.SourceAttached, feed.SourceDetached, feed.Deleted:
		return true
	case feed.Registered, feed.Enabled, feed.Disabled, feed.Shared, feed.Unshared:
	}
	return false
}

// apply folds facts into what is there and writes the result.
func apply(ctx context.Context, tx pgx.Tx, facts []fact) error {
	if len(facts) == 0 {
		return nil
	}
	w, err := load(ctx, tx, facts)
	if err != nil {
		return err
	}
	for _, f := range facts {
		w.apply(f)
	}
	return w.write(ctx, tx)
}

const (
	deleteCarriedByNone = `WITH gone AS (
		DELETE FROM items i WHERE i.feed_id = $1 AND NOT EXISTS (
			SELECT FROM shown s JOIN attachments a ON a.source_id = s.source_id AND a.feed_id = i.feed_id
			WHERE s.happening_id = i.happening_id)
		RETURNING i.id, i.happening_id),
		left_feed AS (INSERT INTO former (happening_id, feed_id) SELECT happening_id, $1 FROM gone ON CONFLICT DO NOTHING)
		SELECT id FROM gone`
	leaveDeleted = `INSERT INTO former (happening_id, feed_id) SELECT happening_id, feed_id FROM items WHERE feed_id = $1
		ON CONFLICT DO NOTHING`
	stillShown = "SELECT id, happening_id FROM items WHERE feed_id = $1 AND source_id = $2"
)

func applyFeed(ctx context.Context, tx pgx.Tx, id uuid.UUID, event feed.Event, sequence int64) error {
	switch e := event.(type) {
	case feed.Created:
		_, err := want(ctx, tx, id, e.Settings)
		return err
	case feed.Revised:
		changed, err := want(ctx, tx, id, e.Settings)
		if err != nil || !changed {
			return err
		}
		return rankAnew(ctx, tx, id)
	case feed.SourceAttached:
		_, err := tx.Exec(ctx, "INSERT INTO attachments (feed_id, source_id) VALUES ($1, $2)", id, e.SourceID)
		return err
	case feed.SourceDetached:
		return detach(ctx, tx, id, e.SourceID, sequence)
	case feed.Deleted:
		batch := &pgx.Batch{}
		batch.Queue(leaveDeleted, id)
		batch.Queue("DELETE FROM occurrences WHERE item_id IN (SELECT id FROM items WHERE feed_id = $1)", id)
		for _, table := range []string{"items", "attachments", "feedback", "retired_feedback", "feeds", "wanted"} {
			batch.Queue("DELETE FROM "+table+" WHERE feed_id = $1", id)
		}
		return tx.SendBatch(ctx, batch).Close()
	case feed.Registered, feed.Enabled, feed.Disabled, feed.Shared, feed.Unshared: // see concerns
	}
	return nil
}

// detach drops the items that no other source of the feed carries, and shows the others as from those sources.
func detach(ctx context.Context, tx pgx.Tx, id, source uuid.UUID, sequence int64) error {
	if _, err := tx.Exec(ctx, "DELETE FROM attachments WHERE feed_id = $1 AND source_id = $2", id, source); err != nil {
		return err
	}
	rows, err := tx.Query(ctx, deleteCarriedByNone, id)
	if err != nil {
		return err
	}
	gone, err := pgx.AppendRows(column.UUIDs(nil), rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return err
	}
	batch := &pgx.Batch{}
	batch.Queue("DELETE FROM occurrences WHERE item_id = ANY($1)", gone)
	batch.Queue(touchFeeds, column.UUIDs{id})
	if err := tx.SendBatch(ctx, batch).Close(); err != nil {
		return err
	}
	return rerender(ctx, tx, id, source, sequence)
}

// rerender renders the items of a feed again that are shown from a source.
func rerender(ctx context.Context, tx pgx.Tx, id, source uuid.UUID, sequence int64) error {
	rows, err := tx.Query(ctx, stillShown, id, source)
	if err != nil {
		return err
	}
	w := newWork()
	var ids, happenings column.UUIDs
	var itemID, happeningID uuid.UUID
	_, err = pgx.ForEachRow(rows, []any{column.UUID(&itemID), column.UUID(&happeningID)}, func() error {
		ids, happenings = append(ids, itemID), append(happenings, happeningID)
		return nil
	})
	if err != nil || len(ids) == 0 {
		return err
	}
	if err := w.load(ctx, tx, happenings, ids, nil); err != nil {
		return err
	}
	for _, itemID := range ids {
		w.dirty[itemID] = sequence
	}
	return w.write(ctx, tx)
}
