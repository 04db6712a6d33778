package query

import (
	"context"
	"slices"

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

// Conditions on row u of due at the time $1: a worker holds it, none does, or its lease has expired. Each is written
// like an index of due.
const (
	isFree  = "u.worker IS NULL AND u.replay IS NULL"
	wasHeld = "u.worker IS NOT NULL AND u.available_at <= $1"
)

var isHeld = deliverystate.Held("$1")

// findPending finds the pending deliveries by which the list differs from the tallies, and reports whether they are the
// whole list. Few are held or tried again, as a destination that keeps failing is disabled; many may wait.
func (l *listing) findPending(ctx context.Context, tx pgx.Tx) (whole bool, err error) {
	states := l.filter.States
	live, ended := states.Live(), states.Ended()
	switch {
	case len(live) == 0 || len(live) == len(deliverystate.Set(0).Live()):
		return false, nil
	case !states.Has(deliverystate.Waiting):
		l.tallied = deliverystate.SetOf(ended...)
		l.more, err = l.find(ctx, tx, deliverystate.SetOf(live...))
		return len(ended) == 0, err
	case len(ended) == 0:
		count, err := value[int](ctx, tx, "pending", "SELECT coalesce(sum("+pendingTally+
			"), 0)::bigint FROM deliveries.tallies WHERE destination = $1", l.destination)
		if err == nil && count <= l.inlineLimit {
			l.more, err = l.find(ctx, tx, states)
			return true, err
		}
		if err != nil {
			return false, err
		}
	}
	others := slices.DeleteFunc(deliverystate.Set(0).Live(), states.Has)
	l.less, err = l.find(ctx, tx, deliverystate.SetOf(others...))
	return false, err
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
		conditions = append(conditions, isFree, wasHeld)
	}
	from, to := l.filter.bounds()
	args := arguments{l.now}
	where := states.SQL("$1") + l.filter.of("d", &args) + created(from, to, &args) +
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
