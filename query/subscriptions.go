package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// Subscription is a destination's choice of events.
type Subscription struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Destination  uuid.UUID
	ExternalID   string // empty if none
	EventTypes   []string
	ScopeKind    string // all, feed_type, feeds
	FeedType     string // of the scope feed_type
	Feeds        []Pin  // of the scope feeds, as declared
	Active       bool
	Reason       string // why it is inactive; empty if its owner switched it off
	CreatedAt    time.Time
	UpdatedAt    time.Time
	Revision     int64 // of the subscription's stream
}

// Pin names one feed.
type Pin struct {
	FeedType string    `json:"feedType"`
	FeedID   uuid.UUID `json:"feedId"`
}

const selectSubscription = `
	SELECT s.id, s.organization, s.destination, coalesce(s.external_id, ''), s.event_types, s.scope_kind,
		coalesce(s.feed_type, ''), s.feeds, s.active, coalesce(s.reason, ''), s.created_at, s.updated_at, s.revision
	FROM subscriptions.subscriptions s`

func scanSubscription(row pgx.CollectableRow) (Subscription, error) {
	var s Subscription
	err := row.Scan(&s.ID, &s.Organization, &s.Destination, &s.ExternalID, &s.EventTypes, &s.ScopeKind,
		&s.FeedType, &s.Feeds, &s.Active, &s.Reason, &s.CreatedAt, &s.UpdatedAt, &s.Revision)
	return s, err
}

// Subscription finds a subscription of a destination by its UUID or external id, the UUID first. It returns
// ErrNotFound if the destination has no such subscription or belongs to another organization.
func (q *Queries) Subscription(ctx context.Context, organization, destination uuid.UUID,
	ref string) (Subscription, error) {
	found, err := byRef(ref, func(column string, value any) (Subscription, error) {
		rows, err := q.Pool.Query(ctx, selectSubscription+" WHERE s.organization = $1 AND s.destination = $2 AND s."+column+
			" = $3",
			organization, destination, value)
		if err != nil {
			return Subscription{}, err
		}
		return pgx.CollectExactlyOneRow(rows, scanSubscription)
	})
	if err != nil {
		return Subscription{}, fmt.Errorf("subscription: %w", err)
	}
	return found, nil
}

// Subscriptions lists a destination's subscriptions, oldest first, and counts all of them.
func (q *Queries) Subscriptions(ctx context.Context, organization, destination uuid.UUID,
	limit, offset int) ([]Subscription, int, error) {
	var (
		batch pgx.Batch
		page  []Subscription
		total int
	)
	batch.Queue(selectSubscription+" WHERE s.organization = $1 AND s.destination = $2 ORDER BY s.created_at, s.id LIMIT "+
		"$3 OFFSET $4",
		organization, destination, limit, offset).Query(func(rows pgx.Rows) (err error) {
		page, err = pgx.CollectRows(rows, scanSubscription)
		return err
	})
	batch.Queue("SELECT count(*) FROM subscriptions.subscriptions WHERE organization = $1 AND destination = $2",
		organization, destination).
		QueryRow(func(row pgx.Row) error { return row.Scan(&total) })
	if err := q.Pool.SendBatch(ctx, &batch).Close(); err != nil {
		return nil, 0, fmt.Errorf("subscriptions: %w", err)
	}
	return page, total, nil
}

// ActiveSubscriptions lists the active subscriptions of a destination.
func (q *Queries) ActiveSubscriptions(ctx context.Context, organization, destination uuid.UUID) (
	[]Subscription, error) {
	rows, err := q.Pool.Query(ctx, selectSubscription+" WHERE s.organization = $1 AND s.destination = $2 AND s.active",
		organization, destination)
	if err != nil {
		return nil, fmt.Errorf("active subscriptions: %w", err)
	}
	active, err := pgx.CollectRows(rows, scanSubscription)
	if err != nil {
		return nil, fmt.Errorf("active subscriptions: %w", err)
	}
	return active, nil
}

// OrphanedDeliveries lists the pending deliveries of a destination that were created for a subscription and for no
// other existing one, without those that a worker holds now.
func (q *Queries) OrphanedDeliveries(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error) {
	rows, err := q.Pool.Query(ctx, `
		SELECT d.id FROM deliveries.due u JOIN deliveries.deliveries d ON d.id = u.id
		WHERE u.destination = $1 AND (u.worker IS NULL OR u.available_at <= now())
			AND d.status = 'pending' AND $2 = ANY(d.subscriptions)
			AND NOT EXISTS (SELECT FROM subscriptions.subscriptions s WHERE s.id = ANY(d.subscriptions) AND s.id <> $2)`,
		destination, subscription)
	if err != nil {
		return nil, fmt.Errorf("orphaned deliveries: %w", err)
	}
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		return nil, fmt.Errorf("orphaned deliveries: %w", err)
	}
	return ids, nil
}
