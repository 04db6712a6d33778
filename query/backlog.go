package query

import (
	"context"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries/deliverystate"
)

// Backlog counts the pending deliveries of an organization.
type Backlog struct {
	Count int
	By    map[deliverystate.State]int // the number in each state
	// Oldest is when the oldest of them was created, to the day if there are very many. Zero if there is none.
	Oldest time.Time
}

// Backlog returns the backlog of an organization.
func (q *Queries) Backlog(ctx context.Context, organization uuid.UUID, now time.Time) (Backlog, error) {
	type tallied struct {
		Count int
		First *time.Time // day of the oldest one
	}
	all, err := one(ctx, q.Pool, "pending", pgx.RowToStructByPos[tallied], `SELECT coalesce(sum(`+pendingTally+
		`), 0)::bigint, min(day) FILTER (WHERE `+pendingTally+` > 0)
		FROM deliveries.outcomes WHERE organization = $1`, organization)
	if err != nil || all.Count <= 0 || all.First == nil {
		return Backlog{}, err
	}
	found := Backlog{Count: all.Count, Oldest: *all.First}
	if all.Count <= fewPending {
		oldest, err := value[*time.Time](ctx, q.Pool, "oldest pending", `SELECT min(d.created_at)
			FROM destinations.destinations t JOIN deliveries.due u ON u.destination = t.id
			CROSS JOIN LATERAL (SELECT created_at, status FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d
			WHERE t.organization = $1 AND d.status = 'pending'`, organization)
		if err != nil {
			return Backlog{}, err
		}
		if oldest != nil { // else it has just ended
			found.Oldest = *oldest
		}
	}
	found.By, err = q.pendingStates(ctx, found.Count, "t.organization = $2", now, organization)
	return found, err
}

// pendingStates splits the number of pending deliveries to some destinations t by their states. It reads the index of
// those that are retried, and the few that a worker holds.
func (q *Queries) pendingStates(ctx context.Context, count int, to string, now time.Time, args ...any) (
	map[deliverystate.State]int, error) {
	type counted struct{ Retried, Held, HeldRetried int }
	found, err := one(ctx, q.Pool, "states of pending", pgx.RowToStructByPos[counted], `SELECT
		(SELECT count(*) FROM destinations.destinations t JOIN deliveries.deliveries d ON d.destination = t.id
			WHERE `+to+" AND "+deliverystate.Retried+`),
		count(*), count(*) FILTER (WHERE `+deliverystate.Retried+`)
		FROM deliveries.due u JOIN destinations.destinations t ON t.id = u.destination
		CROSS JOIN LATERAL (SELECT status, unsuccessful FROM deliveries.deliveries WHERE id = u.id OFFSET 0) d
		WHERE `+to+" AND "+isHeld+" AND d.status = '"+deliverystate.Pending+"'", append([]any{now}, args...)...)
	return map[deliverystate.State]int{
		deliverystate.Waiting:    max(0, count-found.Retried-found.Held+found.HeldRetried),
		deliverystate.Retrying:   found.Retried - found.HeldRetried,
		deliverystate.Delivering: found.Held,
	}, err
}
