package query

import (
	"context"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/subscription"
)

// Subscription is a destination's choice of events.
type Subscription struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Destination  uuid.UUID
	subscription.Settings
	Active    bool
	Reason    string // why it is inactive; empty if its owner switched it off
	CreatedAt time.Time
	UpdatedAt time.Time
	Revision  int64 // of the subscription's stream
}

const selectSubscription = `
	SELECT s.id, s.organization, s.destination, coalesce(s.external_id, ''), s.event_types, s.scope_kind,
		coalesce(s.feed_type, ''), s.feeds, s.active, coalesce(s.reason, ''), s.created_at, s.updated_at, s.revision
	FROM subscriptions.subscriptions s`

// Subscription finds a subscription of a destination by its UUID or external id, the UUID first. It returns
// ErrNotFound if the destination has no such subscription or belongs to another organization.
func (q *Queries) Subscription(ctx context.Context, organization, destination uuid.UUID,
	ref string) (Subscription, error) {
	return byRef(ref, func(column string, ref any) (Subscription, error) {
		return one(ctx, q.Pool, "subscription", pgx.RowToStructByPos[Subscription],
			selectSubscription+" WHERE s.organization = $1 AND s.destination = $2 AND s."+column+" = $3",
			organization, destination, ref)
	})
}

// Subscriptions lists a destination's subscriptions, oldest first, and counts all of them.
func (q *Queries) Subscriptions(ctx context.Context, organization, destination uuid.UUID,
	limit, offset int) ([]Subscription, int, error) {
	of := []any{organization, destination}
	page := statement{selectSubscription + " WHERE s.organization = $1 AND s.destination = $2 " +
		"ORDER BY s.created_at, s.id LIMIT $3 OFFSET $4", slices.Concat(of, []any{limit, offset})}
	count := statement{"SELECT count(*) FROM subscriptions.subscriptions WHERE organization = $1 AND destination = $2", of}
	return counted(ctx, q.Pool, "subscriptions", pgx.RowToStructByPos[Subscription], page, count)
}

// ActiveSubscriptions lists the active subscriptions of a destination.
func (q *Queries) ActiveSubscriptions(ctx context.Context, organization, destination uuid.UUID) (
	[]Subscription, error) {
	return many(ctx, q.Pool, "active subscriptions", pgx.RowToStructByPos[Subscription],
		selectSubscription+" WHERE s.organization = $1 AND s.destination = $2 AND s.active",
		organization, destination)
}

// OrphanedDeliveries lists the pending deliveries of a destination that were created for a subscription and for no
// other existing one, without those that a worker holds now.
func (q *Queries) OrphanedDeliveries(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error) {
	return many(ctx, q.Pool, "orphaned deliveries", pgx.RowTo[uuid.UUID], `
		SELECT d.id FROM deliveries.due u JOIN deliveries.deliveries d ON d.id = u.id
		WHERE u.destination = $1 AND (u.worker IS NULL OR u.available_at <= now())
			AND d.status = 'pending' AND $2 = ANY(d.subscriptions)
			AND NOT EXISTS (SELECT FROM subscriptions.subscriptions s WHERE s.id = ANY(d.subscriptions) AND s.id <> $2)`,
		destination, subscription)
}
