package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// UndeliveredFilter selects deliveries to a destination that have not arrived and can be sent now: those that wait for
// a time after Now and were made until Until, and those that failed permanently and were made between Since and Until.
type UndeliveredFilter struct {
	Destination  uuid.UUID
	Since, Until time.Time
	Now          time.Time
	Types        []string // of events: exact, or with a trailing wildcard. Empty means all
	Limit        int
}

// Undelivered is a delivery that has not arrived.
type Undelivered struct {
	ID     uuid.UUID
	FeedID uuid.UUID // of its event; zero: no feed
	Failed bool      // permanently; else it waits
}

// Undelivered lists deliveries that have not arrived, oldest first. It reads what waits and what failed, by their
// indexes, and nothing of what arrived.
func (q *Queries) Undelivered(ctx context.Context, f UndeliveredFilter) ([]Undelivered, error) {
	args := arguments{f.Destination, f.Now, f.Limit}
	from, to := DeliveryFilter{Since: f.Since, Until: f.Until}.bounds()
	types := DeliveryFilter{Types: f.Types}.typeIs("d.type", &args)
	return many(ctx, q.Pool, "undelivered", pgx.RowToStructByPos[Undelivered], `
		WITH waiting AS (
			SELECT d.created_at, d.id, d.feed_id, false AS failed FROM deliveries.due u
			CROSS JOIN LATERAL (SELECT * FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d
			WHERE u.destination = $1 AND `+deliverystate.Retryable("$2")+
		created(time.Time{}, to, &args)+types+` LIMIT $3
		), failed AS (
			SELECT d.created_at, d.id, d.feed_id, true FROM deliveries.deliveries d
			WHERE d.destination = $1 AND `+deliverystate.Replayable+created(from, to, &args)+types+
		` LIMIT $3
		)
		SELECT id, feed_id, failed FROM (SELECT * FROM waiting UNION ALL SELECT * FROM failed) found
		ORDER BY created_at, id LIMIT $3`, args...)
}

// Failures counts deliveries to one destination whose last attempt failed.
type Failures struct {
	Retrying int  // with those whose next attempt is in flight
	Failed   int  // permanently, with no replay pending
	More     bool // more are retried than were counted
}

// All returns the number of deliveries counted.
func (f Failures) All() int { return f.Retrying + f.Failed }

// mostFailing bounds the rows that are read per destination for each count of Failures.
const mostFailing = 1000

// Failures counts what fails at destinations: what waits for its retry, and what failed permanently and was made since
// a time. Destinations with nothing of that are missing from the result. The caller must own them.
func (q *Queries) Failures(ctx context.Context, destinations []uuid.UUID, since time.Time) (map[uuid.UUID]Failures,
	error) {
	type row struct {
		Destination uuid.UUID
		Failures
	}
	rows, err := many(ctx, q.Pool, "failing", func(r pgx.CollectableRow) (f row, err error) {
		err = r.Scan(&f.Destination, &f.Retrying, &f.Failed)
		f.More = f.Retrying >= mostFailing
		return f, err
	}, `
		SELECT * FROM (SELECT t.id, (
			SELECT count(*) FROM (
				SELECT FROM deliveries.deliveries d WHERE d.destination = t.id AND `+deliverystate.Retried+` LIMIT $3
			) found
		) AS retrying, (
			SELECT count(*) FROM (
				SELECT FROM deliveries.deliveries d WHERE d.destination = t.id AND `+deliverystate.Replayable+`
					AND d.created_at >= $2 LIMIT $3
			) found
		) AS failed FROM unnest($1::uuid[]) t (id)) counted WHERE retrying + failed > 0`,
		destinations, since, mostFailing)
	return keyed(rows, func(r row) (uuid.UUID, Failures) { return r.Destination, r.Failures }), err
}

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
