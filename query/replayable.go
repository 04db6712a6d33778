package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DeliveriesAfter lists completed deliveries of a destination that match a filter, oldest first, starting after a
// given one. The filter's status is "succeeded", "failed", or empty for both.
func (q *Queries) DeliveriesAfter(ctx context.Context, organization, destination uuid.UUID, f DeliveryFilter,
	at time.Time, id uuid.UUID, now time.Time) ([]Delivery, error) {
	from, to := f.bounds()
	if at.After(from) {
		from = at
	}
	l := listing{
		filter:       f,
		organization: organization,
		destination:  destination,
		now:          now,
	}
	args := arguments{now}
	where := l.matches(from, to, &args) + " AND d.organization = " + args.add(organization) +
		" AND d.status IN ('succeeded', 'failed') AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	rows, err := q.Pool.Query(ctx, "SELECT "+deliveryColumns+" FROM deliveries.deliveries d LEFT JOIN deliveries.due u "+
		"ON u.id = d.id WHERE "+where+
		" ORDER BY d.created_at, d.id LIMIT "+args.add(f.Limit), args...)
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Delivery, error) { return scanDelivery(row) })
	if err != nil {
		return nil, fmt.Errorf("deliveries: %w", err)
	}
	return found, nil
}

// Failed counts failed deliveries and their destinations.
type Failed struct{ Deliveries, Destinations int }

// failed selects the failed deliveries x of each destination t of an organization that match a filter, oldest first.
func (f DeliveryFilter) failed(organization uuid.UUID, where string, args *arguments) string {
	return "destinations.destinations t CROSS JOIN LATERAL (SELECT d.id, d.created_at FROM deliveries.deliveries d " +
		"WHERE d.destination = t.id AND d.unsuccessful = 'failed' AND " + f.within(DeliveryMark{}, args) + where +
		" ORDER BY d.created_at, d.id LIMIT " + args.add(f.Limit) + ") x WHERE t.organization = " + args.add(organization)
}

// CountFailed counts the failed deliveries to all destinations of an organization that match a filter, up to its limit.
func (q *Queries) CountFailed(ctx context.Context, organization uuid.UUID, f DeliveryFilter) (n Failed, err error) {
	var args arguments
	some := f.failed(organization, "", &args)
	err = q.Pool.QueryRow(ctx, "SELECT count(*), count(DISTINCT of) FROM (SELECT t.id AS of FROM "+some+" LIMIT "+
		args.add(f.Limit)+") matching", args...).Scan(&n.Deliveries, &n.Destinations)
	if err != nil {
		return Failed{}, fmt.Errorf("failed deliveries: %w", err)
	}
	return n, nil
}

// FailedAfter lists failed deliveries to all destinations of an organization that match a filter, oldest first,
// starting after a given one.
func (q *Queries) FailedAfter(ctx context.Context, organization uuid.UUID, f DeliveryFilter, at time.Time, id uuid.UUID,
	now time.Time) ([]Delivery, error) {
	args := arguments{now}
	after := " AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	page := "SELECT x.id FROM " + f.failed(organization, after, &args) + " ORDER BY x.created_at, x.id LIMIT " +
		args.add(f.Limit)
	rows, err := q.Pool.Query(ctx, "SELECT "+deliveryColumns+" FROM ("+page+`) page
		JOIN deliveries.deliveries d ON d.id = page.id LEFT JOIN deliveries.due u ON u.id = d.id
		ORDER BY d.created_at, d.id`, args...)
	if err != nil {
		return nil, fmt.Errorf("failed deliveries: %w", err)
	}
	found, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (Delivery, error) { return scanDelivery(row) })
	if err != nil {
		return nil, fmt.Errorf("failed deliveries: %w", err)
	}
	return found, nil
}
