package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// fewPending is the number of pending deliveries of a destination up to which they are read one by one. A larger
// number is listed by day, like other deliveries.
const fewPending = 2000

func idsOf(all []DeliveryMark) []uuid.UUID {
	ids := make([]uuid.UUID, len(all))
	for i := range all {
		ids[i] = all[i].ID
	}
	return ids
}

// Conditions on row u of due at the time $1: a worker holds it, or its lease has expired. Each is written like an index
// of due.
const wasHeld = "u.worker IS NOT NULL AND u.available_at <= $1"

var isHeld = deliverystate.Held("$1")

// findPending finds the pending deliveries that a worker holds, if that matters to the list, and the whole list if it
// is one of few pending deliveries. Few are held at a time; many may wait, or be retried.
func (l *listing) findPending(ctx context.Context, tx pgx.Tx) (all []DeliveryMark, whole bool, err error) {
	states := l.filter.States
	live, ended := states.Live(), states.Ended()
	if len(live) == 0 || len(live) == len(deliverystate.Set(0).Live()) {
		return nil, false, nil
	}
	if l.held, err = l.find(ctx, tx, deliverystate.SetOf(deliverystate.Delivering)); err != nil || len(ended) > 0 {
		return nil, false, err
	}
	if !states.Has(deliverystate.Waiting) {
		return l.held, !states.Has(deliverystate.Retrying), nil
	}
	count, err := value[int](ctx, tx, "pending", "SELECT coalesce(sum("+pendingTally+
		"), 0)::bigint FROM deliveries.tallies WHERE destination = $1", l.destination)
	if err != nil || count > l.inlineLimit {
		return nil, false, err
	}
	all, err = l.find(ctx, tx, states)
	return all, true, err
}

// pendingByDay returns a function that counts the pending deliveries of a day that match, from the number of all of
// them. Those that are retried are counted by their index.
func (l *listing) pendingByDay(ctx context.Context, tx pgx.Tx) (func(day time.Time, tallied int) int, error) {
	waits, retried := l.filter.States.Has(deliverystate.Waiting), l.filter.States.Has(deliverystate.Retrying)
	sent := l.filter.States.Has(deliverystate.Delivering)
	held := map[time.Time]int{}
	for _, d := range l.held {
		held[d.CreatedAt.UTC().Truncate(24*time.Hour)]++
	}
	var again map[time.Time]int
	if waits != retried {
		only := *l
		only.filter.States = deliverystate.SetOf(deliverystate.Retrying)
		from, to := l.filter.bounds()
		var args arguments
		where := only.matches(from, to, &args)
		var err error
		if again, err = mapped[time.Time, int](ctx, tx, "retried by day", "SELECT (d.created_at AT TIME ZONE 'UTC')::date, "+
			"count(*) FROM deliveries.deliveries d WHERE "+where+" GROUP BY 1", args...); err != nil {
			return nil, err
		}
	}
	return func(day time.Time, tallied int) (n int) {
		if waits {
			n += tallied - held[day] - again[day]
		}
		if retried {
			n += again[day]
		}
		if sent {
			n += held[day]
		}
		return n
	}, nil
}

// find finds the deliveries in some pending states that match the rest of the filter, newest first. Each row of due
// looks up its delivery: OFFSET 0 keeps the planner from the reverse join through all deliveries of the destination,
// which it considers small while a new table has no statistics.
func (l *listing) find(ctx context.Context, tx pgx.Tx, states deliverystate.Set) ([]DeliveryMark, error) {
	var conditions []string
	if states.Has(deliverystate.Delivering) {
		conditions = append(conditions, isHeld)
	}
	if states.Has(deliverystate.Waiting) || states.Has(deliverystate.Retrying) {
		conditions = append(conditions, deliverystate.Free, wasHeld)
	}
	from, to := l.filter.bounds()
	args := arguments{l.now}
	where := states.SQL(isHeld) + l.filter.of("d", &args) + created(from, to, &args) +
		" AND d.organization = " + args.add(l.organization)
	sql := ""
	for i, condition := range conditions {
		if i > 0 {
			sql += " UNION ALL "
		}
		sql += "SELECT d.created_at, d.id FROM deliveries.due u" +
			" CROSS JOIN LATERAL (SELECT * FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d WHERE u.destination = " +
			args.add(l.destination) + " AND " + condition + " AND " + where
	}
	return many(ctx, tx, "pending", pgx.RowToStructByPos[DeliveryMark],
		sql+" ORDER BY created_at DESC, id DESC", args...)
}

// pageOf returns a page of the deliveries found.
func (l *listing) pageOf(ctx context.Context, tx pgx.Tx, found []DeliveryMark) error {
	l.total = len(found)
	first, end := min(l.filter.Offset, l.total), min(l.filter.Offset+l.filter.Limit, l.total)
	if first == end {
		return nil
	}
	return l.fetch(ctx, tx, "SELECT unnest($2::uuid[]) AS id", arguments{l.now, idsOf(found[first:end])})
}
