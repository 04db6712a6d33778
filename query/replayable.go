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
