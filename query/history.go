package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// History calls each for the published events that an organization can see now, by time, oldest first, both ends
// included, without those that were published before a time, as inPages does.
func (q *Queries) History(ctx context.Context, organization uuid.UUID, since, until, publishedSince time.Time,
	each func(EventSummary) error) error {
	return inPages(func(after EventSummary) ([]EventSummary, error) {
		if after.ID == uuid.Nil {
			after.Time = since
		}
		return many(ctx, q.Pool, "history", func(row pgx.CollectableRow) (e EventSummary, err error) {
			err = row.Scan(&e.ID, &e.Type, &e.Source, &e.Subject, &e.Time, &e.FeedType, &e.FeedID)
			return e, err
		}, `
			SELECT id, type, source, subject, time, feed_type, feed_id FROM (
				SELECT p.id, p.type, p.source, p.subject, p.time, p.feed_type, p.feed_id
				FROM (SELECT id, feed_type FROM feeds.feeds WHERE organization = $1
					UNION SELECT f.id, f.feed_type FROM feeds.shares s JOIN feeds.feeds f ON f.id = s.feed_id
					WHERE s.organization = $1) visible
				CROSS JOIN LATERAL (SELECT * FROM publications.publications p
					WHERE p.feed_id = visible.id AND (p.time, p.id) > ($2, $3) AND p.time <= $4 AND p.published_at >= $6
					ORDER BY p.time, p.id LIMIT $5) p
				WHERE p.feed_type = visible.feed_type
				UNION ALL
				(SELECT p.id, p.type, p.source, p.subject, p.time, NULL, NULL::uuid FROM publications.publications p
				WHERE p.feed_id IS NULL AND p.organization = $1 AND (p.time, p.id) > ($2, $3) AND p.time <= $4
					AND p.published_at >= $6
				ORDER BY p.time, p.id LIMIT $5)) seen
			ORDER BY time, id LIMIT $5`, organization, after.Time, after.ID, until, historyPage, publishedSince)
	}, each)
}
