package query

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Located describes what an id names.
type Located struct {
	Kind string // delivery, event, destination, subscription, feed, item
	ID   uuid.UUID
	Of   uuid.UUID // the destination of a subscription, the feed of an item
}

// Locate returns what an id names among the things that an organization can see, or ErrNotFound.
func (q *Queries) Locate(ctx context.Context, organization, id uuid.UUID) (Located, error) {
	q.seePublished(ctx)
	return one(ctx, q.Pool, "locate", pgx.RowToStructByPos[Located], `WITH visible AS (`+visibleFeeds+`)
		SELECT 'delivery', d.id, d.destination FROM deliveries.deliveries d
			JOIN destinations.destinations t ON t.id = d.destination WHERE d.id = $2 AND t.organization = $1
		UNION ALL SELECT 'event', p.id, p.id FROM publications.publications p WHERE p.id = $2
			AND (p.feed_id IS NULL AND p.organization = $1
				OR EXISTS (SELECT FROM visible v WHERE v.id = p.feed_id AND v.feed_type = p.feed_type))
		UNION ALL SELECT 'destination', t.id, t.id FROM destinations.destinations t
			WHERE t.id = $2 AND t.organization = $1
		UNION ALL SELECT 'subscription', s.id, s.destination FROM subscriptions.subscriptions s
			WHERE s.id = $2 AND s.organization = $1
		UNION ALL SELECT 'feed', v.id, v.id FROM visible v WHERE v.id = $2 AND v.feed_type = 'event'
		UNION ALL SELECT 'item', i.id, i.feed_id FROM items.items i JOIN visible v ON v.id = i.feed_id WHERE i.id = $2
		LIMIT 1`, organization, id)
}

// SubscriptionsNamed lists the subscriptions of an organization that have an external id: each destination can have
// one.
func (q *Queries) SubscriptionsNamed(ctx context.Context, organization uuid.UUID, externalID string,
	limit int) ([]Subscription, error) {
	return many(ctx, q.Pool, "named subscriptions", pgx.RowToStructByPos[Subscription],
		selectSubscription+` JOIN destinations.destinations d ON d.id = s.destination
		WHERE d.organization = $1 AND s.external_id = $2 ORDER BY s.created_at, s.id LIMIT $3`, organization, externalID,
		limit)
}

// FeedsNamed lists the event feeds that an organization can see and whose name contains a text, whatever the case.
func (q *Queries) FeedsNamed(ctx context.Context, organization uuid.UUID, text string, limit int) ([]FeedName, error) {
	return many(ctx, q.Pool, "named feeds", pgx.RowToStructByPos[FeedName],
		"SELECT id, feed_type, name FROM ("+visibleFeeds+`) v
		WHERE feed_type = 'event' AND strpos(lower(name), lower($2)) > 0
		ORDER BY since IS NOT NULL, lower(name), id LIMIT $3`, organization, text, limit)
}
