package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FeedSource is a source of a feed and the progress of its backfill.
type FeedSource struct {
	Association uuid.UUID
	Source      uuid.UUID
	Type        string
	Address     string // URL, or handle of an account
	State       string // one of SourceStates
	AttachedAt  time.Time
	Backfilling bool
	Added       int // items from the backfill
	// Asked counts the pages requested by the walk in progress. nil if none is.
	Asked *int
	// Linked counts the known pages that it has yet to request. nil if none is in progress.
	Linked *int
}

// FeedSources lists the sources of a feed, oldest first, or none if the organization may not read the feed.
func (q *Queries) FeedSources(ctx context.Context, organization, feed uuid.UUID) ([]FeedSource, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT a.id, a.source_id, a.source_type, coalesce(nullif(s.url, ''), s.handle, ''), coalesce(`+sourceState+`,
			'registered'), a.created_at,
			coalesce(t.backfilling, true), coalesce(t.added, 0), CASE WHEN w.walking THEN w.asked END,
			CASE WHEN w.walking THEN w.linked END
		FROM feeds.feeds f JOIN feeds.associations a ON a.feed_id = f.id
		LEFT JOIN sources.sources s ON s.id = a.source_id
		LEFT JOIN sources.attachments t ON t.feed_id = f.id AND t.source_id = a.source_id
		LEFT JOIN carillon.source_walks w ON w.source_id = a.source_id
		WHERE f.id = $2 AND f.feed_type = 'event' AND `+readable+` ORDER BY a.created_at, a.id`, organization, feed)
	if err != nil {
		return nil, fmt.Errorf("sources of a feed: %w", err)
	}
	found, err := pgx.CollectRows(rows, pgx.RowToStructByPos[FeedSource])
	if err != nil {
		return nil, fmt.Errorf("sources of a feed: %w", err)
	}
	return found, nil
}
