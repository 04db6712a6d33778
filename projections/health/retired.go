package health

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/retirement"
	"carillon/eventstore"
	"carillon/projections/column"
)

// beforeRetired splits a batch before its first retirement, which is nil if there is none.
func beforeRetired(
	batch []eventstore.Recorded,
) (before []eventstore.Recorded, retired *retirement.Retired, after []eventstore.Recorded, err error) {
	for i := range batch {
		if batch[i].Category() != retirement.Aggregate.Category {
			continue
		}
		event, err := retirement.Events.Decode(&batch[i])
		if err != nil {
			return nil, nil, nil, err
		}
		switch e := event.(type) {
		case retirement.Retired:
			return batch[:i], &e, batch[i+1:], nil
		case retirement.HappeningsRetired, retirement.Removed: // says nothing about endpoints, and fold passes over it
		}
	}
	return batch, nil, nil, nil
}

// restored is the health of a destination when deliveries to it were retired.
type restored struct {
	retirement.Destination

	before time.Time
}

// A destination that was silent since before the retirement is as it was then, whether its attempts are still known or
// not. Others have later attempts, which stay.
var restoreHealth = column.SQL(`
	UPDATE health h SET
		consecutive_failures = CASE WHEN s.silent THEN u.failures ELSE h.consecutive_failures END,
		streak_started_at = CASE WHEN s.silent THEN u.streak_started_at ELSE h.streak_started_at END,
		last_success_at = greatest(h.last_success_at, u.last_success_at),
		last_failure_at = CASE WHEN s.silent THEN u.last_failure_at ELSE h.last_failure_at END,
		last_error_message = CASE WHEN s.silent THEN u.last_error_message ELSE h.last_error_message END
	FROM %s CROSS JOIN LATERAL (SELECT coalesce(greatest(o.last_success_at, o.last_failure_at), '-infinity') < u.before
			AS silent FROM health o WHERE o.destination = u.destination) s
	WHERE h.destination = u.destination`,
	slices.Concat([]column.Column[restored]{
		column.New[column.UUIDs]("destination", "uuid", func(r restored) uuid.UUID { return r.ID }),
		column.New[column.Times]("before", "timestamptz", func(r restored) time.Time { return r.before }),
	}, column.Of(func(r restored) *retirement.Health { return &r.Health }, healthColumns...))...,
)

// retire keeps the health of the destinations, and drops what they answered before: some of that may be of deliveries
// that stay, but a log that has lost the others can't say how many these were.
func retire(ctx context.Context, tx pgx.Tx, e *retirement.Retired) error {
	scopes := map[uuid.UUID]struct{}{}
	rows := make([]restored, len(e.Destinations))
	for i, d := range e.Destinations {
		scopes[d.ID], scopes[d.Organization] = struct{}{}, struct{}{}
		rows[i] = restored{d, e.Before}
	}
	var statements pgx.Batch
	restoreHealth.Queue(&statements, rows)
	statements.Queue("DELETE FROM answers WHERE scope = ANY($1) AND minutes IN (5, 60) AND slot < $2",
		column.UUIDs(slices.Collect(maps.Keys(scopes))), e.Before)
	if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
		return fmt.Errorf("retire health: %w", err)
	}
	return nil
}
