package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// FeedSource is a source of a feed, and how what it had to show at its attachment comes in.
type FeedSource struct {
	Association uuid.UUID
	Source      uuid.UUID
	Type        string
	Address     string // its URL or, of an account, its handle
	State       string // one of SourceStates
	AttachedAt  time.Time
	Backfilling bool
	Added       int  // items that came by the backfill
	Asked       *int // pages that the walk under way has asked for …
	Linked      *int // … and is still to ask for as far as it knows; nil: none is under way
}

// FeedSources lists the sources of a feed, oldest first; none where the organization may not read the feed.
func (q *Queries) FeedSources(ctx context.Context, organization, feed uuid.UUID) ([]FeedSource, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT a.id, a.source_id, a.source_type, coalesce(nullif(s.url, ''), s.handle, ''), coalesce(`+sourceState+`, 'registered'), a.created_at,
			coalesce(t.backfilling, true), coalesce(t.added, 0), CASE WHEN w.walking THEN w.asked END, CASE WHEN w.walking THEN w.linked END
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
