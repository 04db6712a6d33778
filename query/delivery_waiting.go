package query

import (
	"context"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
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
	isHeld  = "u.worker IS NOT NULL AND u.available_at > $1"
	isFree  = "u.worker IS NULL AND u.replay IS NULL"
	wasHeld = "u.worker IS NOT NULL AND u.available_at <= $1"
)

// delivering lists the deliveries that workers hold: a small set, found without reading the history.
func (l *listing) delivering(ctx context.Context, tx pgx.Tx) error {
	held, err := l.find(ctx, tx, isHeld)
	if err != nil {
		return err
	}
	return l.pageOf(ctx, tx, held)
}

// pending lists the pending deliveries that no worker holds.
func (l *listing) pending(ctx context.Context, tx pgx.Tx) error {
	count, err := value[int](ctx, tx, "pending", "SELECT coalesce(sum("+tally["pending"]+
		"), 0)::bigint FROM deliveries.tallies WHERE destination = $1", l.destination)
	if err != nil {
		return err
	}
	if count > l.inlineLimit {
		if l.held, err = l.find(ctx, tx, isHeld); err != nil {
			return err
		}
		return l.byDay(ctx, tx)
	}
	free, err := l.find(ctx, tx, isFree, wasHeld)
	if err != nil {
		return err
	}
	return l.pageOf(ctx, tx, free)
}

// find finds the pending deliveries that match the filter and one of some conditions, newest first. Each row of due
// looks up its delivery: OFFSET 0 keeps the planner from the reverse join through all deliveries of the destination,
// which it considers small while a new table has no statistics.
func (l *listing) find(ctx context.Context, tx pgx.Tx, conditions ...string) ([]DeliveryMark, error) {
	from, to := l.filter.bounds()
	args := arguments{l.now}
	where := l.matches(from, to, &args) + " AND d.organization = " + args.add(l.organization)
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
