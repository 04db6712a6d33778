package query

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// Backlog counts the pending deliveries of an organization.
type Backlog struct {
	Count int
	// By has the number in each state. nil if there are very many.
	By map[deliverystate.State]int
	// Oldest is when the oldest of them was created, to the day if there are very many. Zero if there is none.
	Oldest time.Time
}

// Backlog returns the backlog of an organization. A small one is counted exactly, a large one by its outcomes.
func (q *Queries) Backlog(ctx context.Context, organization uuid.UUID, now time.Time) (Backlog, error) {
	found, err := q.countPending(ctx, "t.organization = $3", fewPending, now, organization)
	if found.By != nil || err != nil {
		return found, err
	}
	type tallied struct {
		Count  int
		Oldest time.Time
	}
	w, err := one(ctx, q.Pool, "waiting", pgx.RowToStructByPos[tallied], `SELECT coalesce(sum(`+pendingTally+
		`), 0)::bigint, coalesce(min(day) FILTER (WHERE `+pendingTally+` > 0), 'epoch')
		FROM deliveries.outcomes WHERE organization = $1`, organization)
	return Backlog{Count: w.Count, Oldest: w.Oldest}, err
}

// countPending counts the pending deliveries to some destinations t, by state if they are at most a limit.
func (q *Queries) countPending(ctx context.Context, to string, limit int, now time.Time, args ...any) (
	found Backlog, err error) {
	live := deliverystate.Set(0).Live()
	is, counts, by := "", "", make([]int, len(live))
	var oldest *time.Time
	into := append(make([]any, 0, 2+len(live)), &found.Count, &oldest)
	for i, state := range live {
		is += ", " + state.SQL("$1") + " AS " + string(state)
		counts += ", count(*) FILTER (WHERE " + string(state) + ")"
		into = append(into, &by[i])
	}
	err = q.Pool.QueryRow(ctx, "SELECT count(*), min(created_at)"+counts+" FROM (SELECT d.created_at"+is+`
		FROM destinations.destinations t JOIN deliveries.due u ON u.destination = t.id
		CROSS JOIN LATERAL (SELECT created_at, status, attempts FROM deliveries.deliveries d WHERE d.id = u.id
		AND d.status = 'pending' OFFSET 0) d
		WHERE `+to+" LIMIT $2) pending", append([]any{now, limit + 1}, args...)...).Scan(into...)
	if err != nil {
		return found, fmt.Errorf("pending deliveries: %w", err)
	}
	if oldest != nil {
		found.Oldest = *oldest
	}
	if found.Count > limit {
		return found, nil
	}
	found.By = map[deliverystate.State]int{}
	for i, state := range live {
		found.By[state] = by[i]
	}
	return found, nil
}
