package adapters

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"carillon/command/curate"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/column"
)

//go:embed feed_curation.sql
var feedCurationSchema string

// sweepPage bounds what is in memory while all that a source carries is gone through.
const sweepPage = 1000

// FeedCuration is curate.FeedCuration with its memory in Postgres, in the schema of its state.
type FeedCuration struct {
	*curate.FeedCuration

	memory *curationMemory
}

// NewFeedCuration makes a curation of the feeds; each run of it wants a fresh one. Happenings that are over are kept
// for a time; 0 means forever.
func NewFeedCuration(
	tables *projections.Tables, store eventstore.Store, publisher curate.Publisher, keep time.Duration, log *slog.Logger,
) FeedCuration {
	likeness := &likeness{tables: tables}
	memory := &curationMemory{tables: tables, page: sweepPage, likeness: likeness}
	return FeedCuration{curate.NewFeedCuration(store, publisher, memory, likeness, keep, log), memory}
}

// Traits implements eventstore.ProcessManager.
func (c FeedCuration) Traits() eventstore.Traits {
	traits := c.FeedCuration.Traits()
	traits.Tables = feedCurationSchema
	return traits
}

// curationMemory is curate.Memory on the tables of the curation.
type curationMemory struct {
	tables   *projections.Tables
	likeness *likeness
	page     int // happenings of a source that are at hand at one time
}

const (
	recallFeeds   = "SELECT id, feeds, merged FROM happenings WHERE id = ANY($1)"
	recallCarried = "SELECT happening_id, source_id, first_seen, published, last FROM carried WHERE happening_id = ANY($1)"
	dropCarried   = "DELETE FROM carried WHERE (happening_id, source_id) IN (SELECT * FROM unnest($1::uuid[], $2::uuid[]))"
	carriedAfter  = `SELECT c.happening_id, c.newest FROM carried c JOIN happenings h ON h.id = c.happening_id
		WHERE c.source_id = $1 AND (c.newest, c.happening_id) > ($2, $3) AND ($4::uuid IS NULL OR h.feeds @> ARRAY[$4::uuid])
		ORDER BY c.newest, c.happening_id LIMIT $5`
)

// Recall implements curate.Memory.
func (m *curationMemory) Recall(ctx context.Context, ids []uuid.UUID) (map[uuid.UUID]*curate.Known, error) {
	known := make(map[uuid.UUID]*curate.Known, len(ids))
	of := func(id uuid.UUID) *curate.Known {
		if known[id] == nil {
			known[id] = curate.NewKnown()
		}
		return known[id]
	}
	queries := &pgx.Batch{}
	queries.Queue(recallFeeds, column.UUIDs(ids)).Query(func(rows pgx.Rows) error {
		var id uuid.UUID
		var feeds []pgtype.UUID
		var merged bool
		_, err := pgx.ForEachRow(rows, []any{column.UUID(&id), &feeds, &merged}, func() error {
			of(id).Merged = merged
			for _, feed := range feeds {
				of(id).Feeds[feed.Bytes] = true
			}
			return nil
		})
		return err
	})
	queries.Queue(recallCarried, column.UUIDs(ids)).Query(func(rows pgx.Rows) error {
		var id, source uuid.UUID
		var first, published, last time.Time
		into := []any{column.UUID(&id), column.UUID(&source), column.Time(&first), column.Time(&published),
			column.Time(&last)}
		_, err := pgx.ForEachRow(rows, into, func() error {
			of(id).Sources[source] = curate.SourceDates{FirstSeen: first.UTC(), Published: published.UTC(), Last: last.UTC()}
			return nil
		})
		return err
	})
	if err := m.tables.Read(ctx, queries); err != nil {
		return nil, fmt.Errorf("recall happenings: %w", err)
	}
	return known, nil
}

// Carried implements curate.Memory.
func (m *curationMemory) Carried(
	ctx context.Context, which curate.Carried, after curate.Mark,
) (map[uuid.UUID]*curate.Known, curate.Mark, error) {
	from := pgtype.Timestamptz{Valid: true, Time: after.Newest}
	if after == (curate.Mark{}) {
		from.Time = which.Since
		if which.Since.IsZero() {
			from.InfinityModifier = pgtype.NegativeInfinity
		}
	}
	itemsOf := pgtype.UUID{Bytes: which.ItemsOf, Valid: which.ItemsOf != uuid.Nil}
	var ids []uuid.UUID
	queries := &pgx.Batch{}
	queries.Queue(carriedAfter, which.Source, from, after.ID, itemsOf, m.page).Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, []any{column.UUID(&after.ID), column.Time(&after.Newest)}, func() error {
			ids = append(ids, after.ID)
			return nil
		})
		return err
	})
	if err := m.tables.Read(ctx, queries); err != nil {
		return nil, after, fmt.Errorf("recall what source %s carries: %w", which.Source, err)
	}
	if len(ids) == 0 {
		return nil, after, nil
	}
	known, err := m.Recall(ctx, ids)
	return known, after, err
}

// keptHappening and keptDates are rows.
type (
	keptHappening struct {
		id     uuid.UUID
		feeds  map[uuid.UUID]bool
		merged bool
	}
	keptDates struct {
		happening, source uuid.UUID
		curate.SourceDates
	}
)

var (
	upsertHappenings = column.Upsert("happenings", []string{"id"}, nil,
		column.New[column.UUIDs]("id", "uuid", func(h keptHappening) uuid.UUID { return h.id }),
		column.New[[]string]("feeds", "text", func(h keptHappening) string { return arrayOf(h.feeds) }).As("feeds::uuid[]"),
		column.New[[]bool]("merged", "boolean", func(h keptHappening) bool { return h.merged }))
	upsertCarried = column.Upsert("carried", []string{"happening_id", "source_id"}, nil,
		column.New[column.UUIDs]("happening_id", "uuid", func(d keptDates) uuid.UUID { return d.happening }),
		column.New[column.UUIDs]("source_id", "uuid", func(d keptDates) uuid.UUID { return d.source }),
		column.New[column.Times]("first_seen", "timestamptz", func(d keptDates) time.Time { return d.FirstSeen }),
		column.New[column.Times]("published", "timestamptz", func(d keptDates) time.Time { return d.Published }),
		column.New[column.Times]("last", "timestamptz", func(d keptDates) time.Time { return d.Last }),
		column.New[column.Times]("newest", "timestamptz", func(d keptDates) time.Time { return d.Newest() }))
)

// Keep implements curate.Memory.
func (m *curationMemory) Keep(
	ctx context.Context, changed map[uuid.UUID]*curate.Known, dealtWith []eventstore.Recorded,
) error {
	var dropped, from column.UUIDs
	happenings, dates := make([]keptHappening, 0, len(changed)), make([]keptDates, 0, len(changed))
	for id, known := range changed {
		happenings = append(happenings, keptHappening{id, known.Feeds, known.Merged})
		for _, source := range known.Dropped {
			dropped, from = append(dropped, id), append(from, source)
		}
		for source, d := range known.Sources {
			dates = append(dates, keptDates{id, source, d})
		}
	}
	return m.write(ctx, "keep happenings", dealtWith, func(statements *pgx.Batch) {
		if len(dropped) > 0 {
			statements.Queue(dropCarried, dropped, from)
		}
		upsertHappenings.Queue(statements, happenings)
		upsertCarried.Queue(statements, dates)
		m.likeness.queue(statements)
	})
}

// Forget implements curate.Memory.
func (m *curationMemory) Forget(
	ctx context.Context, happenings []uuid.UUID, dealtWith []eventstore.Recorded,
) error {
	return m.write(ctx, "forget happenings", dealtWith, func(statements *pgx.Batch) {
		m.likeness.queue(statements)
		if len(happenings) == 0 {
			return
		}
		for _, where := range []string{
			"happenings WHERE id", "carried WHERE happening_id", "marks WHERE happening_id",
			"comparisons WHERE a", "comparisons WHERE b",
		} {
			statements.Queue("DELETE FROM "+where+" = ANY($1)", column.UUIDs(happenings))
		}
	})
}

// write writes the statements that queue adds, with the events that they come from.
func (m *curationMemory) write(
	ctx context.Context, doing string, dealtWith []eventstore.Recorded, queue func(*pgx.Batch),
) error {
	err := m.tables.Write(ctx, dealtWith, func(tx pgx.Tx) error {
		statements := &pgx.Batch{}
		queue(statements)
		if statements.Len() == 0 {
			return nil
		}
		return tx.SendBatch(ctx, statements).Close()
	})
	if err != nil {
		return fmt.Errorf("%s: %w", doing, err)
	}
	return nil
}

// arrayOf writes a set of ids as Postgres does.
func arrayOf(set map[uuid.UUID]bool) string {
	ids := make([]string, 0, len(set))
	for id := range set {
		ids = append(ids, id.String())
	}
	return "{" + strings.Join(ids, ",") + "}"
}
