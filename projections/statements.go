package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// Statements returns a ReadModel's Project for events that change few rows each: queue adds an event's statements, and
// all of a batch are sent in one round trip.
func Statements[E any](
	decode func(*eventstore.Recorded) (E, error), queue func(*pgx.Batch, *eventstore.Recorded, E) error,
) func(context.Context, pgx.Tx, []eventstore.Recorded) error {
	return func(ctx context.Context, tx pgx.Tx, events []eventstore.Recorded) error {
		var statements pgx.Batch
		for i := range events {
			event, err := decode(&events[i])
			if err == nil {
				err = queue(&statements, &events[i], event)
			}
			if err != nil {
				return err
			}
		}
		if err := tx.SendBatch(ctx, &statements).Close(); err != nil {
			return fmt.Errorf("write rows: %w", err)
		}
		return nil
	}
}

// Changed marks the row of an event's stream as changed by the event, for those who copy what changed since.
func Changed(batch *pgx.Batch, table string, recorded *eventstore.Recorded) {
	batch.Queue("UPDATE "+table+" SET changed_sequence = $2 WHERE id = $1", recorded.StreamID(), Sequence(recorded))
}

// Sequence returns the place of an event in the log.
func Sequence(recorded *eventstore.Recorded) int64 {
	return int64(recorded.Position.Commit) //nolint:gosec // positions fit an int64
}
