package query

import (
	"context"
	"time"

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

// ItemHit is an item that is found by its title.
type ItemHit struct {
	ID, Feed uuid.UUID
	FeedName string
	Title    string
	StartsAt time.Time // of its next occurrence, or else of its last one
}

// itemsSearched bounds the occurrences at which a search looks in each feed, those to come and those that were. It
// reads as many items of all feeds together.
const itemsSearched = 2000

// ItemsTitled lists items of the feeds that an organization can see whose titles have all of some words, whatever the
// case, the next ones first. It looks at those whose occurrences are closest to now.
func (q *Queries) ItemsTitled(
	ctx context.Context, organization uuid.UUID, words []string, now time.Time, limit int,
) ([]ItemHit, error) {
	return many(ctx, q.Pool, "items by title", pgx.RowToStructByPos[ItemHit], `
		WITH near AS (
			SELECT DISTINCT ON (o.item_id) o.item_id, v.id AS feed, v.name, o.starts_at
			FROM (`+visibleFeeds+`) v
			CROSS JOIN LATERAL (
				(SELECT item_id, starts_at FROM items.occurrences WHERE feed_id = v.id AND starts_at >= $2
				ORDER BY starts_at, item_id LIMIT $4)
				UNION ALL
				(SELECT item_id, starts_at FROM items.occurrences WHERE feed_id = v.id AND starts_at < $2
				ORDER BY starts_at DESC, item_id DESC LIMIT $4)) o
			WHERE v.feed_type = 'event'
			ORDER BY o.item_id, o.starts_at < $2, greatest(o.starts_at - $2, $2 - o.starts_at))
		SELECT i.id, near.feed, near.name, named.title, near.starts_at
		FROM (SELECT * FROM near ORDER BY greatest(starts_at - $2, $2 - starts_at), item_id LIMIT 2 * $4) near
		JOIN items.items i ON i.id = near.item_id
		CROSS JOIN LATERAL (SELECT (convert_from(i.current, 'UTF8') || '}')::jsonb->>'title' AS title) named
		WHERE NOT EXISTS (SELECT FROM unnest($3::text[]) AS word WHERE strpos(lower(named.title), lower(word)) = 0)
		ORDER BY near.starts_at < $2, near.starts_at, i.id LIMIT $5`, organization, now, words, itemsSearched, limit)
}

// FeedsNamed lists the event feeds that an organization can see and whose name contains a text, whatever the case.
func (q *Queries) FeedsNamed(ctx context.Context, organization uuid.UUID, text string, limit int) ([]FeedName, error) {
	return many(ctx, q.Pool, "named feeds", pgx.RowToStructByPos[FeedName],
		"SELECT id, feed_type, name FROM ("+visibleFeeds+`) v
		WHERE feed_type = 'event' AND strpos(lower(name), lower($2)) > 0
		ORDER BY since IS NOT NULL, lower(name), id LIMIT $3`, organization, text, limit)
}
