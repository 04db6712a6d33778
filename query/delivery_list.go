package query

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/projections/deliveries/deliverystate"
)

// DeliveryFilter selects deliveries. Zero fields don't restrict.
type DeliveryFilter struct {
	States deliverystate.Set
	// Type is the event type: exact, with a trailing wildcard such as "news.*", or "*".
	Type   string
	Feed   uuid.UUID // of the event
	Since  time.Time // of the delivery's creation, inclusive
	Until  time.Time // inclusive
	Limit  int
	Offset int

	// Of AllDeliveries only.
	Destination uuid.UUID
	Among       []uuid.UUID // ids of deliveries; nil means any
}

// pendingTally counts, in a row of tallies, the deliveries that have not ended.
const pendingTally = "total - succeeded - failed - superseded - discarded"

// tally returns the expression that counts, in a row of tallies, the deliveries in a set of states. Pending ones are
// counted together: all of them if the set has one of their states.
func tally(states deliverystate.Set) string {
	if states == 0 {
		return "total"
	}
	var sum []string
	for _, state := range states.Ended() {
		sum = append(sum, string(state)) // the column's name
	}
	if len(states.Live()) > 0 {
		sum = append(sum, pendingTally)
	}
	return strings.Join(sum, " + ")
}

// listing is one call of Deliveries and its results so far.
type listing struct {
	filter       DeliveryFilter
	organization uuid.UUID
	destination  uuid.UUID
	now          time.Time
	inlineLimit  int // see fewPending

	// A list of some states of pending deliveries is that of the states tallied, with the deliveries more, and without
	// the deliveries less.
	tallied    deliverystate.Set
	more, less []DeliveryMark

	page  []Delivery
	total int
}

// Deliveries lists deliveries of a destination, newest first, and counts all that match the filter. Neither a long
// history nor a large offset makes it slow: whole days are counted and skipped by their tallies.
func (q *Queries) Deliveries(ctx context.Context, organization, destination uuid.UUID, f DeliveryFilter,
	now time.Time) ([]Delivery, int, error) {
	l := listing{
		filter:       f,
		organization: organization,
		destination:  destination,
		now:          now,
		inlineLimit:  fewPending,
	}
	return l.answer(ctx, q.Pool)
}

// answer reads the page and the total.
func (l *listing) answer(ctx context.Context, pool *pgxpool.Pool) ([]Delivery, int, error) {
	err := inSnapshot(ctx, pool, func(tx pgx.Tx) error {
		l.page, l.total, l.tallied, l.more, l.less = nil, 0, l.filter.States, nil, nil
		whole, err := l.findPending(ctx, tx)
		switch {
		case err != nil:
			return err
		case whole:
			return l.pageOf(ctx, tx, l.more)
		}
		return l.byDay(ctx, tx)
	})
	if err != nil {
		return nil, 0, fmt.Errorf("deliveries: %w", err)
	}
	return l.page, l.total, nil
}

// arguments collects the parameters of a statement.
type arguments []any

func (a *arguments) add(value any) string {
	*a = append(*a, value)
	return fmt.Sprintf("$%d", len(*a))
}

// typeIs returns the condition on the event type in a column.
func (f DeliveryFilter) typeIs(column string, args *arguments) string {
	prefix, wild := strings.CutSuffix(f.Type, "*")
	switch {
	case f.Type == "" || f.Type == "*":
		return ""
	case wild:
		return " AND starts_with(" + column + ", " + args.add(prefix) + ")"
	}
	return " AND " + column + " = " + args.add(f.Type)
}

// matches returns the condition on rows d of deliveries created from a time (inclusive) to another (exclusive).
func (l *listing) matches(from, to time.Time, args *arguments) string {
	where := "d.destination = " + args.add(l.destination) + l.filter.of("d", args) + created(from, to, args)
	// A subquery is hashed once. <> ALL of a parameter would compare each row with every id.
	among := func(marks []DeliveryMark) string { return "(SELECT unnest(" + args.add(idsOf(marks)) + "::uuid[]))" }
	switch stored := storedAs(l.tallied, args); {
	case len(l.more) > 0:
		return where + " AND (" + stored + " OR d.id IN " + among(l.more) + ")"
	case len(l.less) > 0:
		return where + " AND " + stored + " AND d.id NOT IN " + among(l.less)
	default:
		return where + " AND " + stored
	}
}

// bounds returns since and until as a half-open interval.
func (f DeliveryFilter) bounds() (from, to time.Time) {
	from, to = f.Since.UTC(), f.Until.UTC()
	if !f.Since.IsZero() {
		from = from.Add(time.Microsecond - 1).Truncate(time.Microsecond) // rows have microseconds
	}
	if !f.Until.IsZero() {
		to = to.Truncate(time.Microsecond).Add(time.Microsecond)
	}
	return from, to
}

// byDay lists deliveries by their daily tallies.
func (l *listing) byDay(ctx context.Context, tx pgx.Tx) error {
	days, err := l.countDays(ctx, tx)
	if err != nil {
		return err
	}
	from, to, skip := time.Time{}, time.Time{}, l.filter.Offset
	missing := l.filter.Limit
	for _, day := range days {
		l.total += day.count
		switch {
		case to.IsZero() && skip >= day.count:
			skip -= day.count
			continue
		case to.IsZero():
			to = day.to
			missing += skip
		}
		if missing > 0 {
			from = day.from
			missing -= day.count
		}
	}
	if to.IsZero() || l.filter.Limit == 0 {
		return nil
	}
	args := arguments{l.now}
	where := l.matches(from, to, &args)
	return l.fetch(ctx, tx, "SELECT d.id FROM deliveries.deliveries d WHERE "+where+
		newestFirst+" LIMIT "+args.add(l.filter.Limit)+" OFFSET "+args.add(skip), args)
}

// dayCount is the number of matches on a day, and the part of the day that lies within the filter's bounds.
type dayCount struct {
	from, to time.Time
	partial  bool
	count    int
}

// countDays counts the matches of each day that has any, newest first.
func (l *listing) countDays(ctx context.Context, tx pgx.Tx) ([]dayCount, error) {
	from, to := l.filter.bounds()
	args := arguments{l.destination, l.organization}
	where := "t.destination = $1 AND EXISTS (SELECT 1 FROM destinations.destinations o WHERE o.id = $1 AND " +
		"o.organization = $2)" +
		l.filter.of("t", &args)
	if !from.IsZero() {
		where += " AND t.day >= " + args.add(from)
	}
	if !to.IsZero() {
		where += " AND t.day <= " + args.add(to)
	}
	sum := "sum(" + tally(l.tallied) + ")::bigint"
	days, err := many(ctx, tx, "days", func(row pgx.CollectableRow) (d dayCount, err error) {
		err = row.Scan(&d.from, &d.count)
		d.to = d.from.AddDate(0, 0, 1)
		return d, err
	}, "SELECT t.day, "+sum+" FROM deliveries.tallies t WHERE "+where+
		" GROUP BY t.day HAVING "+sum+" > 0 OR "+args.add(len(l.more) > 0)+" ORDER BY t.day DESC", args...)
	if err != nil {
		return nil, err
	}
	more := map[time.Time]int{}
	for _, d := range l.more {
		more[d.CreatedAt.UTC().Truncate(24*time.Hour)]++
	}
	for _, d := range l.less {
		more[d.CreatedAt.UTC().Truncate(24*time.Hour)]--
	}
	for i := range days {
		day := &days[i]
		day.count += more[day.from]
		if !from.IsZero() && from.After(day.from) {
			day.from, day.partial = from, true
		}
		if !to.IsZero() && to.Before(day.to) {
			day.to, day.partial = to, true
		}
		if !day.partial {
			continue
		}
		var args arguments
		count := "SELECT count(*) FROM deliveries.deliveries d WHERE " + l.matches(day.from, day.to, &args)
		if day.count, err = value[int](ctx, tx, "part of a day", count, args...); err != nil {
			return nil, err
		}
	}
	return days, nil
}

// fetch reads the page whose ids a statement selects; its first parameter is the current time.
func (l *listing) fetch(ctx context.Context, tx pgx.Tx, ids string, args arguments) (err error) {
	l.page, err = deliveriesOf(ctx, tx, ids, newestFirst, args)
	return err
}
