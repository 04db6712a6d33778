package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Telling is what a source tells of a happening. What is in JSON is as it is stored.
type Telling struct {
	SourceID    uuid.UUID
	Of          uuid.UUID // the happening that it was observed as, where that was merged; else zero
	Details     []byte
	Source      []byte // the source block
	Origins     []byte
	PublishedAt *time.Time
	Standing    int
	StaleAt     *time.Time // since when it is not on show there; nil where it is
	Since       time.Time
	DatedAt     time.Time // since when dates and statuses are told as they are
	ToldAt      time.Time // since when all is
	URL, Handle *string   // of the source
}

// ItemOf is an item that shows a happening.
type ItemOf struct {
	ID, FeedID, SourceID uuid.UUID
	AddedAt              time.Time
}

// Tellings are what all sources tell of a happening, and the items that show it. It returns ErrNotFound where none tells
// of it.
func (q *Queries) Tellings(ctx context.Context, happening uuid.UUID) (tellings []Telling, items []ItemOf, err error) {
	batch := &pgx.Batch{}
	batch.Queue(`SELECT t.source_id, t.of_id, t.details, t.source, t.origins, t.published_at, t.standing, t.stale, t.since, t.dated_at,
			t.told_at, s.url, s.handle
		FROM items.shown t LEFT JOIN sources.sources s ON s.id = t.source_id WHERE t.happening_id = $1 ORDER BY t.since, t.source_id, t.of_id`,
		happening).Query(func(rows pgx.Rows) (err error) {
		tellings, err = pgx.CollectRows(rows, pgx.RowToStructByPos[Telling])
		return err
	})
	batch.Queue("SELECT id, feed_id, source_id, added_at FROM items.items WHERE happening_id = $1 ORDER BY added_at, id", happening).
		Query(func(rows pgx.Rows) (err error) {
			items, err = pgx.CollectRows(rows, pgx.RowToStructByPos[ItemOf])
			return err
		})
	if err := q.Pool.SendBatch(ctx, batch).Close(); err != nil {
		return nil, nil, fmt.Errorf("tellings: %w", err)
	}
	if len(tellings) == 0 {
		return nil, nil, ErrNotFound
	}
	return tellings, items, nil
}
