package query

import (
	"context"
	"fmt"
	"slices"
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
	// Types are event types: exact, with a trailing wildcard such as "news.*", or "*".
	Types  []string
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

// tally returns the expression that counts, in a row of tallies, the deliveries in some states. Pending ones are
// counted together: all of them if one of the states is theirs.
func tally(states ...deliverystate.State) string {
	sum := "0"
	for _, state := range states {
		if !state.Live() {
			sum += " + " + string(state) // the column's name
		}
	}
	if slices.ContainsFunc(states, deliverystate.State.Live) {
		sum += " + " + pendingTally
	}
	return sum
}

// listing is one call of Deliveries and its results so far.
type listing struct {
	filter       DeliveryFilter
	organization uuid.UUID
	destination  uuid.UUID
	now          time.Time
	inlineLimit  int // see fewPending

	held []DeliveryMark // pending ones that a worker holds, if the filter selects some pending ones, and not all

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
		l.page, l.total, l.held = nil, 0, nil
		all, whole, err := l.findPending(ctx, tx)
		switch {
		case err != nil:
			return err
		case whole:
			return l.pageOf(ctx, tx, all)
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

// anyType reports whether the filter selects events of all types.
func (f DeliveryFilter) anyType() bool { return len(f.Types) == 0 || slices.Contains(f.Types, "*") }

// typeIs returns the condition on the event type in a column.
func (f DeliveryFilter) typeIs(column string, args *arguments) string {
	if f.anyType() {
		return ""
	}
	conditions := make([]string, len(f.Types))
	for i, pattern := range f.Types {
		if prefix, wild := strings.CutSuffix(pattern, "*"); wild {
			conditions[i] = "starts_with(" + column + ", " + args.add(prefix) + ")"
			continue
		}
		conditions[i] = column + " = " + args.add(pattern)
	}
	return " AND (" + strings.Join(conditions, " OR ") + ")"
}

// matches returns the condition on rows d of deliveries created from a time (inclusive) to another (exclusive).
func (l *listing) matches(from, to time.Time, args *arguments) string {
	held := "false"
	if len(l.held) > 0 { // a subquery is hashed once; = ANY of a parameter would compare each row with every id
		held = "d.id IN (SELECT unnest(" + args.add(idsOf(l.held)) + "::uuid[]))"
	}
	return "d.destination = " + args.add(l.destination) + l.filter.of("d", args) + created(from, to, args) +
		" AND " + l.filter.States.SQL(held)
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
	pending, err := l.pendingByDay(ctx, tx)
	if err != nil {
		return nil, err
	}
	days, err := many(ctx, tx, "days", func(row pgx.CollectableRow) (d dayCount, err error) {
		var tallied int
		err = row.Scan(&d.from, &d.count, &tallied)
		d.to, d.count = d.from.AddDate(0, 0, 1), d.count+pending(d.from, tallied)
		return d, err
	}, "SELECT t.day, sum("+tally(l.filter.States.Ended()...)+")::bigint, sum("+pendingTally+")::bigint "+
		"FROM deliveries.tallies t WHERE "+where+" GROUP BY t.day ORDER BY t.day DESC", args...)
	if err != nil {
		return nil, err
	}
	for i := range days {
		day := &days[i]
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
