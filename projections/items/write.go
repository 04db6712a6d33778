package items

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/projections/column"
)

// touchFeeds gives feeds a new version. A transaction's number is never used twice, not even by a rebuild.
const touchFeeds = `INSERT INTO feeds (feed_id, version) SELECT id, pg_current_xact_id()::text::bigint FROM unnest($1::uuid[]) AS id
	ON CONFLICT (feed_id) DO UPDATE SET version = excluded.version`

// rows are what is to be copied into one table.
type rows struct {
	table   string
	columns []string
	values  [][]any
}

func (r *rows) add(values ...any) { r.values = append(r.values, values) }

// output is what a work comes to: rows that go, then rows that come. A row that changes does both.
type output struct {
	shown, items, legacy, occurrences rows

	shownHappenings, shownSources column.UUIDs // views that go
	gone                          column.UUIDs // items that go
	touched                       map[uuid.UUID]struct{}
}

// write renders the dirty items and writes everything that changed.
func (w *work) write(ctx context.Context, tx pgx.Tx) error {
	o := output{
		shown:       rows{table: "shown", columns: []string{"happening_id", "source_id", "details", "source", "published_at", "stale", "changed"}},
		items:       rows{table: "items", columns: []string{"id", "feed_id", "happening_id", "source_id", "added_at", "current", "source", "occurrences"}},
		legacy:      rows{table: "legacy", columns: []string{"item_id", "feed_id", "body"}},
		occurrences: rows{table: "occurrences", columns: []string{"item_id", "number", "feed_id", "starts_at", "previous", "instance_status", "instance_ends"}},
		touched:     map[uuid.UUID]struct{}{},
	}
	if err := w.writeViews(&o); err != nil {
		return err
	}
	if err := w.writeItems(&o); err != nil {
		return err
	}
	for id, feed := range w.removed {
		o.gone = append(o.gone, id)
		o.touched[feed] = struct{}{}
	}
	if err := w.clear(ctx, tx, &o); err != nil {
		return err
	}
	for _, r := range []*rows{&o.shown, &o.items, &o.legacy, &o.occurrences} {
		if len(r.values) == 0 {
			continue
		}
		if _, err := tx.CopyFrom(ctx, pgx.Identifier{r.table}, r.columns, pgx.CopyFromRows(r.values)); err != nil {
			return fmt.Errorf("copy %s: %w", r.table, err)
		}
	}
	return nil
}

// clear makes room for what comes, in one round trip with all that is small.
func (w *work) clear(ctx context.Context, tx pgx.Tx, o *output) error {
	batch := &pgx.Batch{}
	if len(o.shownHappenings) > 0 {
		batch.Queue(`DELETE FROM shown s USING unnest($1::uuid[], $2::uuid[]) AS gone (happening_id, source_id)
			WHERE s.happening_id = gone.happening_id AND s.source_id = gone.source_id`, o.shownHappenings, o.shownSources)
	}
	if len(o.gone) > 0 {
		batch.Queue("DELETE FROM items WHERE id = ANY($1)", o.gone)
		batch.Queue("DELETE FROM legacy WHERE item_id = ANY($1)", o.gone)
		batch.Queue("DELETE FROM occurrences WHERE item_id = ANY($1)", o.gone)
	}
	for _, f := range w.feedback {
		batch.Queue("INSERT INTO feedback (id, item_id, feed_id, organization, rating, comment, given_at) VALUES ($1, $2, $3, $4, $5, $6, $7)",
			f.given.FeedbackID, f.item, f.given.FeedID, f.given.Organization, f.given.Rating, f.given.Comment, f.given.At)
	}
	if len(o.touched) > 0 {
		batch.Queue(touchFeeds, keys(o.touched))
	}
	return tx.SendBatch(ctx, batch).Close()
}

func keys(set map[uuid.UUID]struct{}) column.UUIDs {
	list := make(column.UUIDs, 0, len(set))
	for id := range set {
		list = append(list, id)
	}
	return list
}

// asBinary keeps an id out of pgx's way by text.
func asBinary(id uuid.UUID) pgtype.UUID { return pgtype.UUID{Bytes: id, Valid: true} }

func (w *work) writeViews(o *output) error {
	for _, views := range w.views {
		for _, v := range views {
			if !v.dirty {
				continue
			}
			details, err := json.Marshal(v.details)
			if err != nil {
				return err
			}
			block, err := json.Marshal(v.block)
			if err != nil {
				return err
			}
			if v.stored {
				o.shownHappenings, o.shownSources = append(o.shownHappenings, v.happening), append(o.shownSources, v.source)
			}
			o.shown.add(asBinary(v.happening), asBinary(v.source), details, block, v.publishedAt, v.stale, v.changed)
		}
	}
	return nil
}

func (w *work) writeItems(o *output) error {
	for id := range w.dirty {
		r := w.items[id]
		v := w.pick(r)
		if v == nil {
			w.remove(id) // the feed lost its source before the item was recorded
			continue
		}
		if err := o.render(r, v); err != nil {
			return err
		}
		if r.stored {
			o.gone = append(o.gone, id)
		}
		o.touched[r.feed] = struct{}{}
	}
	return nil
}

func (o *output) render(r *row, v *view) error {
	shown := shape.Item{ID: r.id, EventID: r.happening, AddedAt: r.addedAt, Details: v.details, SourceType: v.block.Type}
	current, err := shape.Current(shown)
	if err != nil {
		return err
	}
	legacy, err := shape.Legacy(shown)
	if err != nil {
		return err
	}
	block, err := shape.Source(v.block)
	if err != nil {
		return err
	}
	id, feed, all := asBinary(r.id), asBinary(r.feed), occurrencesOf(v.details)
	o.items.add(id, feed, asBinary(r.happening), asBinary(v.source), r.addedAt, current, block, pack(all))
	o.legacy.add(id, feed, legacy)
	previous := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	for i, occurrence := range all {
		start := pgtype.Timestamptz{Valid: true, Time: occurrence.start}
		o.occurrences.add(id, i, feed, start, previous, string(cmp.Or(occurrence.instanceStatus, happening.Scheduled)), occurrence.instanceEnds)
		previous = start
	}
	return nil
}
