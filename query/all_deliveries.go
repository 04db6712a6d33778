package query

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// DeliveryMark is a position in a list of deliveries ordered by creation, newest first.
type DeliveryMark struct {
	CreatedAt time.Time
	ID        uuid.UUID
}

// waitingOrRetried are the states that one list has if both are asked for.
var waitingOrRetried = deliverystate.SetOf(deliverystate.Waiting, deliverystate.Retrying)

// parts splits the filter into those of separate lists, one of each state.
func (f DeliveryFilter) parts() (parts []DeliveryFilter) {
	states := f.States.All()
	if len(states) == len(deliverystate.States()) {
		f.States = 0
	}
	if f.Among != nil || f.States == 0 {
		return []DeliveryFilter{f}
	}
	both := f.States&waitingOrRetried == waitingOrRetried
	for _, state := range states {
		f.States = deliverystate.SetOf(state)
		switch {
		case both && state == deliverystate.Retrying:
			continue
		case both && state == deliverystate.Waiting:
			f.States = waitingOrRetried
		}
		parts = append(parts, f)
	}
	return parts
}

// AllDeliveries lists deliveries to all destinations of an organization, newest first, starting after a mark; the
// zero mark means the beginning. If an index leads to the matches, it reads the newest rows of each destination,
// starting at a time by which some destinations alone fill a page. Otherwise it reads only the days with enough
// matches. Its cost does not depend on the length of the history.
func (q *Queries) AllDeliveries(ctx context.Context, organization uuid.UUID, f DeliveryFilter, after DeliveryMark,
	now time.Time) ([]Delivery, error) {
	parts := f.parts()
	if len(parts) == 1 {
		return q.listed(ctx, organization, parts[0], after, now)
	}
	var all []Delivery
	for _, part := range parts { // pending ones first: one that ends meanwhile is in both lists
		some, err := q.listed(ctx, organization, part, after, now)
		if err != nil {
			return nil, err
		}
		all = append(all, some...)
	}
	slices.SortStableFunc(all, func(a, b Delivery) int {
		return cmp.Or(b.CreatedAt.Compare(a.CreatedAt), bytes.Compare(b.ID[:], a.ID[:]))
	})
	all = slices.CompactFunc(all, func(a, b Delivery) bool { return a.ID == b.ID })
	return all[:min(f.Limit, len(all))], nil
}

// listed lists the deliveries of one part of a filter.
func (q *Queries) listed(ctx context.Context, organization uuid.UUID, f DeliveryFilter, after DeliveryMark,
	now time.Time) ([]Delivery, error) {
	var found []Delivery
	err := inSnapshot(ctx, q.Pool, func(tx pgx.Tx) (err error) {
		found = nil
		args := arguments{now}
		var ids string
		waiting := f.waiting()
		switch {
		case f.Among != nil:
			ids = f.among(organization, after, &args)
		case f.States == deliverystate.SetOf(deliverystate.Delivering):
			ids = f.pendingOf(isHeld, organization, after, &args)
		case f.indexed():
			ids = f.newestOfAll(organization, after, &args)
		default:
			of, from, err := f.recentDestinations(ctx, tx, organization, after, now)
			recent := len(of) > 0
			if err == nil && !recent && !waiting {
				of, from, err = f.busyDestinations(ctx, tx, organization, after, now)
			}
			if err == nil && waiting && !recent { // no tally counts them apart from others that are pending
				ids = f.pendingOf("true", organization, after, &args)
				break
			}
			if err != nil || len(of) == 0 {
				return err
			}
			some, since := "unnest("+args.add(of)+"::uuid[])", args.add(from)
			if recent {
				some = f.withMatches(some, since, &args)
			}
			ids = f.newestOf(some, since, after, &args)
		}
		found, err = deliveriesOf(ctx, tx, ids, newestFirst, args)
		return err
	})
	return found, err
}

// bounded returns the condition on rows d for the time bounds of the filter and a mark.
func (f DeliveryFilter) bounded(after DeliveryMark, args *arguments) string {
	from, to := f.bounds()
	where := "true" + created(from, to, args)
	if !after.CreatedAt.IsZero() {
		where += " AND (d.created_at, d.id) < (" + args.add(after.CreatedAt) + ", " + args.add(after.ID) + ")"
	}
	return where
}

// created returns the condition on rows d for the time of their creation: from (inclusive) to another (exclusive).
func created(from, to time.Time, args *arguments) (where string) {
	if !from.IsZero() {
		where += " AND d.created_at >= " + args.add(from)
	}
	if !to.IsZero() {
		where += " AND d.created_at < " + args.add(to)
	}
	return where
}

// is returns the condition on rows d for the states of the filter. Few deliveries are held at a time.
func (f DeliveryFilter) is(now string) string {
	return f.States.SQL("d.id IN (SELECT u.id FROM deliveries.due u WHERE " + deliverystate.Held(now) + ")")
}

// of returns the condition on rows of deliveries or tallies for the events of the filter.
func (f DeliveryFilter) of(row string, args *arguments) string {
	where := f.typeIs(row+".type", args)
	if f.Feed != uuid.Nil {
		where += " AND " + row + ".feed_id = " + args.add(f.Feed)
	}
	return where
}

// to returns the condition on rows of destinations for the destination of the filter.
func (f DeliveryFilter) to(row string, args *arguments) string {
	if f.Destination == uuid.Nil {
		return ""
	}
	return " AND " + row + ".id = " + args.add(f.Destination)
}

// within returns the condition on rows d for the filter, without its status, and a mark.
func (f DeliveryFilter) within(after DeliveryMark, args *arguments) string {
	return f.bounded(after, args) + f.of("d", args)
}

// lookBack lists how many days before the last one are searched first for a page. Most pages are found there, and an
// organization with many destinations has a large number of tallies.
var lookBack = []int{1, 7}

// busyDestinations uses the tallies to find the latest day since which there is at least a page of matches, and the
// destinations with a match since then. A day that a bound or the mark cuts off counts as empty.
func (f DeliveryFilter) busyDestinations(ctx context.Context, tx pgx.Tx, organization uuid.UUID, after DeliveryMark,
	now time.Time) (of []uuid.UUID, from time.Time, err error) {
	first, last := f.bounds()
	if !after.CreatedAt.IsZero() && (last.IsZero() || after.CreatedAt.Before(last)) {
		last = after.CreatedAt
	}
	newest := now
	if !last.IsZero() && last.Before(now) {
		newest = last
	}
	for _, days := range lookBack {
		since := newest.UTC().Truncate(24*time.Hour).AddDate(0, 0, -days)
		if first.After(since) {
			break
		}
		of, from, enough, err := f.busySince(ctx, tx, organization, since, last)
		if enough || err != nil {
			return of, from, err
		}
	}
	of, from, _, err = f.busySince(ctx, tx, organization, first, last)
	return of, from, err
}

// busySince searches the days between two bounds. enough reports whether the days that count have a page of matches.
func (f DeliveryFilter) busySince(ctx context.Context, tx pgx.Tx, organization uuid.UUID,
	first, last time.Time) (of []uuid.UUID, from time.Time, enough bool, err error) {
	args := arguments{organization}
	where := "d.organization = $1" + f.to("d", &args) + f.of("t", &args)
	whole := "true"
	if !first.IsZero() {
		where += " AND t.day >= " + args.add(first) + "::timestamptz AT TIME ZONE 'UTC' - interval '1 day'"
	}
	if !last.IsZero() {
		day := args.add(last.UTC().Truncate(24 * time.Hour))
		where += " AND t.day <= " + day
		whole = "day < " + day
	}
	count := "sum(" + tally(f.States.All()...) + ")::bigint"
	limit := args.add(f.Limit)
	rows, err := tx.Query(ctx, `
		WITH days AS (SELECT t.day, t.destination, `+count+` AS n FROM destinations.destinations d
				JOIN deliveries.tallies t ON t.destination = d.id WHERE `+where+` GROUP BY 1, 2 HAVING `+count+` > 0),
			sums AS (SELECT day, sum(sum(n) FILTER (WHERE `+whole+`)) OVER (ORDER BY day DESC) AS upTo FROM days GROUP BY day),
			since AS (SELECT coalesce((SELECT max(day) FROM sums WHERE upTo >= `+limit+`), (SELECT min(day) FROM sums)) AS day,
				EXISTS (SELECT FROM sums WHERE upTo >= `+limit+`) AS enough)
		SELECT since.day, since.enough, array_agg(DISTINCT days.destination) FROM days JOIN since ON days.day >= since.day
		GROUP BY 1, 2`, args...)
	if err != nil {
		return nil, from, false, err
	}
	_, err = pgx.ForEachRow(rows, []any{&from, &enough, &of}, func() error { return nil })
	return of, from, enough, err
}

// waiting reports whether the filter is for deliveries that were not tried yet, and maybe for those that are retried.
func (f DeliveryFilter) waiting() bool { return f.States != 0 && f.States.Has(deliverystate.Waiting) }

// indexed reports whether the newest match of a destination is at the end of an index, whatever else the table holds.
func (f DeliveryFilter) indexed() bool {
	if f.States == deliverystate.SetOf(deliverystate.Retrying) {
		return true // no tally counts them
	}
	return !f.waiting() && f.States != deliverystate.SetOf(deliverystate.Succeeded) && f.Feed == uuid.Nil && f.anyType()
}

// sampled is the number of destinations that recentDestinations samples for the age of a page; sampledRows is the
// number of newest rows that it reads of each if no index leads to the matches. Deliveries that wait are often those of
// few destinations, whose newest rows they are then.
const sampled, sampledRows, sampledWaiting = 200, 10, 100

// recentDestinations finds a time since which there is a page of matches, and the destinations that can contribute to
// that page. It samples the newest rows of some destinations. If these have a page, it samples the most recently
// active destinations; of all others it reads the newest row only, from an index. It finds nothing if matches are too
// rare; the caller then uses the tallies.
func (f DeliveryFilter) recentDestinations(ctx context.Context, tx pgx.Tx, organization uuid.UUID,
	after DeliveryMark, now time.Time) (of []uuid.UUID, since time.Time, err error) {
	args := arguments{organization, f.Limit, sampled, sampledRows}
	held := ""
	if f.waiting() {
		args[3], held = sampledWaiting, args.add(now)
	}
	const newest = newestFirst + " LIMIT "
	rows := "FROM deliveries.deliveries d WHERE d.destination = t.id AND " + f.bounded(after, &args)
	match := f.is(held) + f.of("d", &args)
	to := f.to("destinations", &args)
	pageOf := func(some string) string {
		return "SELECT d.created_at, d.id FROM (" + some + ") t(id) CROSS JOIN LATERAL (SELECT * " + rows + newest +
			"$4) d WHERE " + match + newest + "$2"
	}
	err = tx.QueryRow(ctx, `WITH
		since AS MATERIALIZED (SELECT min(created_at) AS at FROM (`+
		pageOf("SELECT id FROM destinations.destinations WHERE organization = $1"+to+" ORDER BY created_at DESC LIMIT $3")+
		`) page HAVING count(*) = $2),
		newest AS MATERIALIZED (SELECT t.id AS destination, d.created_at, d.id FROM since
		CROSS JOIN destinations.destinations t
			CROSS JOIN LATERAL (SELECT d.created_at, d.id `+rows+` AND d.created_at >= since.at`+newest+`1) d
			WHERE t.organization = $1`+f.to("t", &args)+`),
		last AS (SELECT * FROM ((`+pageOf("SELECT destination FROM newest ORDER BY created_at DESC, id DESC LIMIT $3")+`
			OFFSET $2 - 1)
			UNION ALL SELECT at, '00000000-0000-0000-0000-000000000000' FROM since) ends ORDER BY created_at DESC, id DESC
			LIMIT 1)
		SELECT last.created_at, ARRAY(SELECT destination FROM newest n
		WHERE (n.created_at, n.id) >= (last.created_at, last.id)) FROM last`,
		args...).Scan(&since, &of)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, since, nil
	}
	return of, since, err
}

// withMatches selects the destinations of some that have a match since the day of a time, so that a busy destination
// without any match is not walked through.
func (f DeliveryFilter) withMatches(some, since string, args *arguments) string {
	return "(SELECT t.id FROM " + some + " t(id) CROSS JOIN LATERAL (SELECT FROM deliveries.tallies x WHERE " +
		"x.destination = t.id AND x.day >= (" + since +
		"::timestamptz AT TIME ZONE 'UTC')::date AND " + tally(f.States.All()...) + " > 0" + f.of("x", args) +
		" LIMIT 1) any_match)"
}

// newestOfAll selects the ids of a page among the newest deliveries of all destinations of an organization. A page of
// some destinations bounds the age of a page of all; older rows of the others are not read.
func (f DeliveryFilter) newestOfAll(organization uuid.UUID, after DeliveryMark, args *arguments) string {
	all := "SELECT id FROM destinations.destinations t WHERE organization = " + args.add(organization) + f.to("t", args)
	some := "(" + all + " ORDER BY created_at DESC LIMIT " + args.add(sampled) + ")"
	return "WITH since AS MATERIALIZED (SELECT CASE WHEN count(*) = " + args.add(f.Limit) +
		" THEN min(created_at) ELSE '-infinity' END AS at FROM (" +
		f.newestOf(some, "'-infinity'", after, args) + ") newest) " + f.newestOf("("+all+")", "(SELECT at FROM since)", after,
		args)
}

// newestOf selects the ids of a page among the newest deliveries of some destinations since a time. Every destination
// on the page is among the limit destinations with the newest last delivery: one row is read of each destination, and
// a page of each of these.
func (f DeliveryFilter) newestOf(of, since string, after DeliveryMark, args *arguments) string {
	where := f.within(after, args) + " AND d.destination = t.id AND d.created_at >= " + since
	where += " AND " + f.is("$1")
	limit := args.add(f.Limit)
	newest := func(among, limited string) string {
		return "SELECT t.id AS destination, d.id, d.created_at FROM " + among + " t(id) CROSS JOIN LATERAL (SELECT d.id, " +
			"d.created_at FROM deliveries.deliveries d WHERE " + where +
			newestFirst + " LIMIT " + limited + ") d" + newestFirst + " LIMIT " + limit
	}
	return "SELECT page.id, page.created_at FROM (" + newest("(SELECT destination FROM ("+newest(of, "1")+") firsts)",
		limit) + ") page"
}

// pendingOf selects the ids of a page among pending deliveries whose rows u of due meet a condition.
func (f DeliveryFilter) pendingOf(due string, organization uuid.UUID, after DeliveryMark, args *arguments) string {
	return "SELECT d.id FROM destinations.destinations t JOIN deliveries.due u ON u.destination = t.id" +
		" CROSS JOIN LATERAL (SELECT * FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d" +
		" WHERE t.organization = " + args.add(organization) + f.to("t", args) + " AND " + due +
		" AND " + f.States.SQL(isHeld) + " AND " + f.within(after, args) +
		newestFirst + " LIMIT " + args.add(f.Limit)
}

// among selects the ids of a page among the deliveries with given ids.
func (f DeliveryFilter) among(organization uuid.UUID, after DeliveryMark, args *arguments) string {
	where := "d.id = ANY(" + args.add(binaryUUIDs(f.Among)) + ") AND t.organization = " + args.add(organization) +
		f.to("t", args) + " AND " + f.within(after, args) + " AND " + f.States.SQL(isHeld)
	return "SELECT d.id FROM deliveries.deliveries d JOIN destinations.destinations t ON t.id = d.destination" +
		" LEFT JOIN deliveries.due u ON u.id = d.id WHERE " + where +
		newestFirst + " LIMIT " + args.add(f.Limit)
}
