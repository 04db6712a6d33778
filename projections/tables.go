package projections

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
)

// Tables are the separate tables of a process manager while it runs, those of eventstore.Traits. After a takeover they
// read nothing and write nothing: both compare the epoch of its session.
type Tables struct {
	p *reacting
	s *session
}

// Read runs queries in one transaction. It sees the rows of earlier Writes.
func (t *Tables) Read(ctx context.Context, queries *pgx.Batch) error {
	return t.s.read(ctx, queries)
}

// Write commits rows. With events, the next ones that were processed, it also commits the rest of the state and moves
// the checkpoint behind them. Without, the checkpoint stays: after a crash the current event is seen again, with the
// rows that are written now.
func (t *Tables) Write(ctx context.Context, dealtWith []eventstore.Recorded, write func(pgx.Tx) error) error {
	p, s := t.p, t.s
	if len(dealtWith) == 0 {
		return s.commit(ctx, s.position, s.anchor, 0, write)
	}
	rows, err := p.Changed()
	if err != nil {
		return err
	}
	to, last := dealtWith[len(dealtWith)-1].Position, s.anchor.after(dealtWith)
	err = s.commit(ctx, to, last, p.events+len(dealtWith), func(tx pgx.Tx) error {
		if err := save(ctx, tx, rows); err != nil {
			return err
		}
		return write(tx)
	})
	if err != nil {
		return err
	}
	p.written += len(dealtWith)
	p.events, p.seen, p.last = 0, to, last
	return nil
}

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
