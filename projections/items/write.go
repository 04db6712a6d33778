package items

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"carillon/aggregates/happening"
	"carillon/aggregates/item/shape"
	"carillon/projections/column"
)

// touchFeeds sets a new version for feeds. A transaction's number is never used twice, not even by a rebuild.
const touchFeeds = `INSERT INTO feeds (feed_id, version) SELECT id, pg_current_xact_id()::text::bigint
	FROM unnest($1::uuid[]) AS id
	ON CONFLICT (feed_id) DO UPDATE SET version = excluded.version`

// output is the result of a work: deleted rows, then inserted rows. A changed row is both.
type output struct {
	shown       []*view
	items       []rendered
	occurrences []occurrence
	ranking     ranking // of items

	hidden  []*view      // views that go
	gone    column.UUIDs // items that go
	touched map[uuid.UUID]struct{}
}

// rendered is the stored form of an item.
type rendered struct {
	*row
	source         uuid.UUID
	current, block []byte
	packed         []byte // its occurrences
	relevance      *float32
	changed        int64
}

// occurrence is one of an item's.
type occurrence struct {
	*row
	when
	number   int
	previous pgtype.Timestamptz
}

// shownColumns are those of the table shown, as they are read.
const shownColumns = "happening_id, source_id, of_id, details, source, published_at, standing, origins, stale, " +
	"since, dated_at, told_at"

// The columns of all tables that items are read from.
var (
	viewKey = []column.Column[*view]{
		column.New[column.UUIDs]("happening_id", "uuid", func(v *view) uuid.UUID { return v.happening }),
		column.New[column.UUIDs]("source_id", "uuid", func(v *view) uuid.UUID { return v.SourceID }),
		column.New[column.UUIDs]("of_id", "uuid", func(v *view) uuid.UUID { return v.Of }),
	}
	deleteShown = column.SQL("DELETE FROM shown AS t USING %s WHERE t.happening_id = u.happening_id "+
		"AND t.source_id = u.source_id AND t.of_id = u.of_id", viewKey...)
	copyShown = column.Copy("shown", append(slices.Clone(viewKey),
		column.New[[][]byte]("details", "bytea", func(v *view) []byte { return v.content.details }),
		column.New[[][]byte]("source", "bytea", func(v *view) []byte { return v.content.block }),
		column.New[[]*time.Time]("published_at", "timestamptz", func(v *view) *time.Time { return v.PublishedAt }),
		column.New[[]int]("standing", "integer", func(v *view) int { return int(v.Standing) }),
		column.New[[][]byte]("origins", "bytea", func(v *view) []byte { return v.content.origins }),
		column.New[[]*time.Time]("stale", "timestamptz", func(v *view) *time.Time { return v.staleAt }),
		column.New[[]time.Time]("since", "timestamptz", func(v *view) time.Time { return v.Since }),
		column.New[[]time.Time]("dated_at", "timestamptz", func(v *view) time.Time { return v.DatedAt }),
		column.New[[]time.Time]("told_at", "timestamptz", func(v *view) time.Time { return v.toldAt }),
		column.New[column.Times]("ends_at", "timestamptz", func(v *view) time.Time { return v.Details.Last() }))...)
	copyItems = column.Copy("items",
		column.New[column.UUIDs]("id", "uuid", func(r rendered) uuid.UUID { return r.id }),
		column.New[column.UUIDs]("feed_id", "uuid", func(r rendered) uuid.UUID { return r.feed }),
		column.New[column.UUIDs]("happening_id", "uuid", func(r rendered) uuid.UUID { return r.happening }),
		column.New[column.UUIDs]("source_id", "uuid", func(r rendered) uuid.UUID { return r.source }),
		column.New[[]time.Time]("added_at", "timestamptz", func(r rendered) time.Time { return r.addedAt }),
		column.New[[][]byte]("current", "bytea", func(r rendered) []byte { return r.current }),
		column.New[[][]byte]("source", "bytea", func(r rendered) []byte { return r.block }),
		column.New[[][]byte]("occurrences", "bytea", func(r rendered) []byte { return r.packed }),
		column.New[[]*float32]("relevance", "real", func(r rendered) *float32 { return r.relevance }),
		column.New[[]int64]("changed_sequence", "bigint", func(r rendered) int64 { return r.changed }))
	copyOccurrences = column.Copy("occurrences",
		column.New[column.UUIDs]("item_id", "uuid", func(o occurrence) uuid.UUID { return o.row.id }),
		column.New[[]int]("number", "integer", func(o occurrence) int { return o.number }),
		column.New[column.UUIDs]("feed_id", "uuid", func(o occurrence) uuid.UUID { return o.feed }),
		column.New[[]time.Time]("starts_at", "timestamptz", func(o occurrence) time.Time { return o.start }),
		column.New[[]pgtype.Timestamptz]("previous", "timestamptz", func(o occurrence) pgtype.Timestamptz {
			return o.previous
		}),
		column.New[[]string]("instance_status", "text", func(o occurrence) string {
			return string(cmp.Or(o.instanceStatus, happening.Scheduled))
		}),
		column.New[[]time.Time]("instance_ends", "timestamptz", func(o occurrence) time.Time { return o.instanceEnds }),
		column.New[[]time.Time]("ends_at", "timestamptz", func(o occurrence) time.Time { return o.last() }),
		column.New[[]bool]("long", "boolean", func(o occurrence) bool { return o.last().Sub(o.start) > maxShort }))
	insertFormer = column.SQL("INSERT INTO former (happening_id, feed_id) SELECT u.happening_id, u.feed_id FROM %s "+
		"ON CONFLICT DO NOTHING",
		column.New[column.UUIDs]("happening_id", "uuid", func(m membership) uuid.UUID { return m.happening }),
		column.New[column.UUIDs]("feed_id", "uuid", func(m membership) uuid.UUID { return m.feed }))
	insertFeedback = column.Insert("feedback",
		column.New[column.UUIDs]("id", "uuid", func(f feedback) uuid.UUID { return f.given.FeedbackID }),
		column.New[column.UUIDs]("item_id", "uuid", func(f feedback) uuid.UUID { return f.item }),
		column.New[column.UUIDs]("feed_id", "uuid", func(f feedback) uuid.UUID { return f.given.FeedID }),
		column.New[column.UUIDs]("organization", "uuid", func(f feedback) uuid.UUID { return f.given.Organization }),
		column.New[[]string]("rating", "text", func(f feedback) string { return f.given.Rating }),
		column.New[[]string]("comment", "text", func(f feedback) string { return f.given.Comment }),
		column.New[[]time.Time]("given_at", "timestamptz", func(f feedback) time.Time { return f.given.At }))
)

// write renders the dirty items and writes everything that changed.
func (w *work) write(ctx context.Context, tx pgx.Tx) error {
	o := output{hidden: w.forgotten, touched: map[uuid.UUID]struct{}{}}
	w.writeViews(&o)
	if err := w.writeItems(&o); err != nil {
		return err
	}
	relevance, err := o.ranking.rank(ctx, tx, w.wanted)
	if err != nil {
		return err
	}
	for i := range o.items {
		o.items[i].relevance = relevance[i]
	}
	for id, feed := range w.removed {
		o.gone = append(o.gone, id)
		o.touched[feed] = struct{}{}
	}
	if err := w.clear(ctx, tx, &o); err != nil {
		return err
	}
	if err := copyShown.Run(ctx, tx, o.shown); err != nil {
		return err
	}
	if err := copyItems.Run(ctx, tx, o.items); err != nil {
		return err
	}
	return copyOccurrences.Run(ctx, tx, o.occurrences)
}

// clear deletes the rows that are replaced, in one round trip with all small statements.
func (w *work) clear(ctx context.Context, tx pgx.Tx, o *output) error {
	batch := &pgx.Batch{}
	deleteShown.Queue(batch, o.hidden)
	if len(o.gone) > 0 {
		batch.Queue("DELETE FROM items WHERE id = ANY($1)", o.gone)
		batch.Queue("DELETE FROM occurrences WHERE item_id = ANY($1)", o.gone)
	}
	insertFeedback.Queue(batch, w.feedback)
	insertFormer.Queue(batch, slices.Collect(maps.Keys(w.former)))
	for id, into := range w.merged {
		batch.Queue("DELETE FROM merged WHERE happening_id = $1", id)
		if into != uuid.Nil {
			batch.Queue("INSERT INTO merged (happening_id, into_id) VALUES ($1, $2)", id, into)
		}
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

func (w *work) writeViews(o *output) {
	for _, views := range w.views {
		for _, v := range views {
			if !v.dirty {
				continue
			}
			if v.stored {
				o.hidden = append(o.hidden, v)
			}
			o.shown = append(o.shown, v)
		}
	}
}

func (w *work) writeItems(o *output) error {
	dirty := slices.Collect(maps.Keys(w.dirty))
	all := make([]made, len(dirty))
	parallel(len(dirty), func(i int) {
		all[i] = w.render(w.items[dirty[i]])
		all[i].changed = w.dirty[dirty[i]]
	})
	for i, id := range dirty {
		m := &all[i]
		if m.err != nil {
			return m.err
		}
		if !m.shown {
			r := w.items[id] // the feed lost its source before the item was recorded
			w.former[membership{r.happening, r.feed}] = struct{}{}
			w.remove(id)
			continue
		}
		o.add(m)
		if m.stored {
			o.gone = append(o.gone, id)
		}
	}
	return nil
}

// made is the result for an item.
type made struct {
	rendered
	words text // by which it is ranked
	all   []when
	shown bool // a source of the feed carries it
	err   error
}

func (w *work) render(r *row) (m made) {
	combined, from, ok := w.pick(r)
	if !ok {
		return m
	}
	m.shown, m.row, m.source = true, r, from.SourceID
	var errs [2]error
	m.current, errs[0] = shape.Current(shape.Item{
		ID:      r.id,
		EventID: r.happening,
		AddedAt: r.addedAt,
		Details: combined.Details,
	})
	m.block, errs[1] = shape.Source(from.Source)
	m.err = errors.Join(errs[:]...)
	m.all = occurrencesOf(combined.Details)
	m.packed = pack(m.all)
	if w.wanted[r.feed].wants() {
		if views := w.views[r.happening]; len(views) == 1 && views[0].content.words != nil {
			m.words = *views[0].content.words
		} else {
			m.words = textOf(&combined.Details)
		}
	}
	return m
}

func (o *output) add(m *made) {
	o.touched[m.feed] = struct{}{}
	o.ranking.add(m.feed, m.words)
	o.items = append(o.items, m.rendered)
	previous := pgtype.Timestamptz{Valid: true, InfinityModifier: pgtype.NegativeInfinity}
	for i, w := range m.all {
		o.occurrences = append(o.occurrences, occurrence{
			row:      m.row,
			when:     w,
			number:   i,
			previous: previous,
		})
		if last := w.last(); i == 0 || last.After(previous.Time) {
			previous = pgtype.Timestamptz{Valid: true, Time: last}
		}
	}
}
