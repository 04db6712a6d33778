package sources

import (
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/retirement"
	"carillon/projections/column"
)

// backfill is a backfill some of whose items are retired.
type backfill struct {
	feed uuid.UUID
	retirement.Backfill
}

var (
	addRetired = column.SQL("INSERT INTO retired AS r (source_id, happenings) SELECT u.source_id, u.happenings FROM %s "+
		"ON CONFLICT (source_id) DO UPDATE SET happenings = r.happenings + excluded.happenings",
		column.New[column.UUIDs]("source_id", "uuid", func(s retirement.Shown) uuid.UUID { return s.SourceID }),
		column.New[[]int64]("happenings", "bigint", func(s retirement.Shown) int64 { return s.Happenings }))
	// A rebuild from a log that has lost the retired items counts fewer.
	keepBackfills = column.SQL("UPDATE attachments AS a SET added = greatest(a.added, u.added) FROM %s "+
		"WHERE a.feed_id = u.feed_id AND a.source_id = u.source_id AND a.attached_at = u.attached_at",
		column.New[column.UUIDs]("feed_id", "uuid", func(b backfill) uuid.UUID { return b.feed }),
		column.New[column.UUIDs]("source_id", "uuid", func(b backfill) uuid.UUID { return b.SourceID }),
		column.New[[]time.Time]("attached_at", "timestamptz", func(b backfill) time.Time { return b.AttachedAt }),
		column.New[[]int]("added", "integer", func(b backfill) int { return b.Added }))
)

// queueRetirement drops what sources have shown of retired happenings, and keeps the counts.
func queueRetirement(batch *pgx.Batch, fold fold, event retirement.Event) {
	var e retirement.HappeningsRetired
	switch event := event.(type) {
	case retirement.HappeningsRetired:
		e = event
	case retirement.Retired, retirement.Removed: // no happenings
		return
	}
	fold.queue(batch)
	ids, by := make(column.UUIDs, len(e.Happenings)), make(column.UUIDs, len(e.Shown))
	for i, h := range e.Happenings {
		ids[i] = h.ID
	}
	for i, s := range e.Shown {
		by[i] = s.SourceID
	}
	backfills := make([]backfill, len(e.Backfills))
	for i, b := range e.Backfills {
		backfills[i] = backfill{e.Feeds[b.In], b}
	}
	batch.Queue("DELETE FROM shown WHERE source_id = ANY($1) AND happening_id = ANY($2)", by, ids)
	addRetired.Queue(batch, e.Shown)
	keepBackfills.Queue(batch, backfills)
}
