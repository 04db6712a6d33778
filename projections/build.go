package projections

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
)

// catchUp reads the events after a position that pass the filter, up to what is the head then, and hands them over in
// batches. Where the subscription breaks, it goes on from there.
func catchUp(ctx context.Context, store eventstore.Store, after eventstore.Position, filter eventstore.Filter, log *slog.Logger,
	apply func(batch []eventstore.Recorded) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	batch := make([]eventstore.Recorded, 0, MaxBatch)
	flush := func() error {
		if len(batch) == 0 {
			return nil
		}
		err := apply(batch)
		batch = batch[:0]
		return err
	}
	for message := range eventstore.Follow(ctx, store, after, filter, log) {
		switch {
		case message.CaughtUp:
			return flush()
		case message.Event != nil:
			batch = append(batch, *message.Event)
		}
		if len(batch) == MaxBatch {
			if err := flush(); err != nil {
				return err
			}
		}
	}
	return ctx.Err()
}

// open builds a read model that has nothing yet, or was interrupted in that, up to the head. What is there until then
// can be read, but is not all: status and readiness say so.
func (p *projecting) open(ctx context.Context, r *Runner, s *session) error {
	head, err := r.Store.Head(ctx)
	if err != nil {
		return fmt.Errorf("head: %w", err)
	}
	if s.position == eventstore.Start && head != eventstore.Start {
		if err := s.setIncomplete(ctx, true); err != nil {
			return err
		}
	}
	if !s.incomplete {
		return nil
	}
	progress := newBuildProgress(r.Pool, p.model.Name, head)
	progress.at(ctx, s.position)
	err = catchUp(ctx, r.Store, s.position, p.model.Filter, r.Log, func(batch []eventstore.Recorded) error {
		if err := p.handle(ctx, s, Batch{Events: batch, Position: batch[len(batch)-1].Position}); err != nil {
			return err
		}
		progress.at(ctx, s.position)
		return nil
	})
	progress.end(ctx)
	if err != nil {
		return err
	}
	return s.setIncomplete(ctx, false)
}

func (s *session) setIncomplete(ctx context.Context, incomplete bool) error {
	if err := s.exec(ctx, "UPDATE carillon.checkpoints SET incomplete = $2 WHERE name = $1", s.name, incomplete); err != nil {
		return fmt.Errorf("record that the read model is built: %w", err)
	}
	s.incomplete = incomplete
	return nil
}

// progressInterval is between two records of how far a build has come.
const progressInterval = 500 * time.Millisecond

// buildProgress records for all processes how far a build has come. Failures to do so change nothing.
type buildProgress struct {
	pool *pgxpool.Pool
	name string
	to   eventstore.Position
	last time.Time
}

func newBuildProgress(pool *pgxpool.Pool, name string, to eventstore.Position) *buildProgress {
	return &buildProgress{pool: pool, name: name, to: to}
}

func (b *buildProgress) at(ctx context.Context, position eventstore.Position) {
	if time.Since(b.last) < progressInterval {
		return
	}
	b.last = time.Now()
	_, _ = b.pool.Exec(ctx, "UPDATE carillon.checkpoints SET built = $2, build_to = $3 WHERE name = $1",
		b.name, int64(position.Commit), int64(b.to.Commit)) //nolint:gosec // positions fit an int64
}

func (b *buildProgress) end(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_, _ = b.pool.Exec(ctx, "UPDATE carillon.checkpoints SET built = NULL, build_to = NULL WHERE name = $1", b.name)
}
