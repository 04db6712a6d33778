package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// DeliveriesAfter lists completed deliveries of a destination that match a filter, oldest first, starting after a
// given one. The filter's states are Succeeded, Failed, or none for both.
func (q *Queries) DeliveriesAfter(ctx context.Context, organization, destination uuid.UUID, f DeliveryFilter,
	at time.Time, id uuid.UUID, now time.Time) ([]Delivery, error) {
	from, to := f.bounds()
	if at.After(from) {
		from = at
	}
	l := listing{filter: f, organization: organization, destination: destination}
	args := arguments{now}
	where := l.matches(from, to, &args) + " AND d.organization = " + args.add(organization) +
		" AND d.status IN ('succeeded', 'failed') AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	page := "SELECT d.id FROM deliveries.deliveries d WHERE " + where + oldestFirst + " LIMIT " + args.add(f.Limit)
	return deliveriesOf(ctx, q.Pool, page, oldestFirst, args)
}

// Sendable counts what has not arrived at all destinations of an organization and can be sent now.
type Sendable struct{ Waiting, Failed, Destinations int }

// Deliveries returns the number of deliveries that are sent.
func (s Sendable) Deliveries() int { return s.Waiting + s.Failed }

// failing selects the deliveries x of each destination t of an organization that match a filter: those that failed
// permanently and, if the destination is enabled, those that wait for a time after $1.
func (f DeliveryFilter) failing(organization uuid.UUID, where string, args *arguments) string {
	half := func(waits, from string) string {
		return "(SELECT d.id, d.created_at, " + waits + " AS waits FROM " + from + " AND " +
			f.within(DeliveryMark{}, args) + where + oldestFirst + " LIMIT " + args.add(f.Limit) + ")"
	}
	return "destinations.destinations t CROSS JOIN LATERAL (" +
		half("false", "deliveries.deliveries d WHERE d.destination = t.id AND "+deliverystate.Replayable) + " UNION ALL " +
		half("true", "deliveries.due u "+
			"CROSS JOIN LATERAL (SELECT * FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d "+
			"WHERE u.destination = t.id AND t.status = 'enabled' AND "+deliverystate.Retryable("$1")) +
		") x WHERE t.organization = " + args.add(organization)
}

// CountFailing counts the deliveries that FailingAfter lists, up to the filter's limit.
func (q *Queries) CountFailing(ctx context.Context, organization uuid.UUID, f DeliveryFilter, now time.Time) (Sendable,
	error) {
	args := arguments{now}
	sql := "SELECT count(*) FILTER (WHERE waits), count(*) FILTER (WHERE NOT waits), count(DISTINCT of) FROM (" +
		"SELECT t.id AS of, x.waits FROM " + f.failing(organization, "", &args) + " LIMIT " +
		args.add(f.Limit) + ") matching"
	return one(ctx, q.Pool, "failing deliveries", pgx.RowToStructByPos[Sendable], sql, args...)
}

// FailingAfter lists the deliveries to all destinations of an organization that match a filter, have not arrived and
// can be sent now, oldest first, starting after a given one.
func (q *Queries) FailingAfter(ctx context.Context, organization uuid.UUID, f DeliveryFilter, at time.Time,
	id uuid.UUID, now time.Time) ([]Delivery, error) {
	args := arguments{now}
	after := " AND (d.created_at, d.id) > (" + args.add(at) + ", " + args.add(id) + ")"
	page := "SELECT x.id FROM " + f.failing(organization, after, &args) + " ORDER BY x.created_at, x.id LIMIT " +
		args.add(f.Limit)
	return deliveriesOf(ctx, q.Pool, page, oldestFirst, args)
}
