package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
)

// DeliveriesAfter lists completed deliveries of a destination that match a filter, oldest first, starting after a
// given one. The filter's states are Succeeded, Failed, or none for both.
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
		tallied:      f.States,
	}
	args := arguments{now}
	where := l.matches(from, to, &args) + " AND d.organization = " + args.add(organization) +
		" AND d.status IN ('succeeded', 'failed') AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	page := "SELECT d.id FROM deliveries.deliveries d WHERE " + where + oldestFirst + " LIMIT " + args.add(f.Limit)
	return deliveriesOf(ctx, q.Pool, page, oldestFirst, args)
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
func (q *Queries) CountFailed(ctx context.Context, organization uuid.UUID, f DeliveryFilter) (Failed, error) {
	var args arguments
	sql := "SELECT count(*), count(DISTINCT of) FROM (SELECT t.id AS of FROM " + f.failed(organization, "", &args) +
		" LIMIT " + args.add(f.Limit) + ") matching"
	return one(ctx, q.Pool, "failed deliveries", pgx.RowToStructByPos[Failed], sql, args...)
}

// FailedAfter lists failed deliveries to all destinations of an organization that match a filter, oldest first,
// starting after a given one.
func (q *Queries) FailedAfter(ctx context.Context, organization uuid.UUID, f DeliveryFilter, at time.Time, id uuid.UUID,
	now time.Time) ([]Delivery, error) {
	args := arguments{now}
	after := " AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	page := "SELECT x.id FROM " + f.failed(organization, after, &args) + " ORDER BY x.created_at, x.id LIMIT " +
		args.add(f.Limit)
	return deliveriesOf(ctx, q.Pool, page, oldestFirst, args)
}
