package projections

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// The bounds of a batch of a build: larger than near the head, because no caller waits for one of its events. Decoding
// and rendering it must not keep a transaction idle for longer than Postgres permits (see sessionlock).
const (
	buildEvents = 4 * MaxBatch
	buildBytes  = 4 << 20
)

// stretch is a batch of a build, begun.
type stretch struct {
	events  []eventstore.Recorded
	project func(ctx context.Context, tx pgx.Tx) error
}

// end is the position of its end.
func (s stretch) end() eventstore.Position { return s.events[len(s.events)-1].Position }

// span is the part of the log that a build reads.
type span struct {
	after eventstore.Position
	to    eventstore.Position // the last one. Optional: the default is the head at the start.
}

// catchUp reads the events of a span that concern a read model, and hands them over in batches. While one is applied,
// the next is read and begun. If the subscription breaks, it continues from there.
func catchUp(
	ctx context.Context, store eventstore.Store, of span, m ReadModel, log *slog.Logger,
	apply func(stretch) error,
) error {
	ctx, cancel := context.WithCancel(ctx)
	stretches, complete := make(chan stretch), false // the latter is written before the former is closed, as is failed
	var failed error
	defer func() {
		cancel()
		for range stretches { //nolint:revive // the reader ends
		}
	}()
	go func() {
		defer close(stretches)
		failed = panics.Catch("build of "+m.Name, func() error {
			complete = read(ctx, store, of, m, log, stretches)
			return nil
		})
	}()
	for s := range stretches {
		if err := apply(s); err != nil {
			return err
		}
	}
	if !complete {
		return cmp.Or(ctx.Err(), failed, eventstore.ErrInvalidPosition)
	}
	return nil
}

// read sends what catchUp applies. It reports whether that is all of the span.
func read(
	ctx context.Context, store eventstore.Store, of span, m ReadModel, log *slog.Logger, to chan<- stretch,
) (complete bool) {
	var batch []eventstore.Recorded
	size := 0
	flush := func() bool {
		if len(batch) == 0 {
			return true
		}
		select {
		case to <- stretch{batch, m.begin(batch)}:
		case <-ctx.Done():
			return false
		}
		batch, size = make([]eventstore.Recorded, 0, buildEvents), 0
		return true
	}
	for message := range eventstore.Follow(ctx, store, of.after, m.Filter, log) {
		switch {
		case message.CaughtUp, of.to != eventstore.Start && of.to.Before(message.Position):
			return flush()
		case message.Event != nil:
			batch, size = append(batch, *message.Event), size+len(message.Event.Data)
		}
		if (len(batch) == buildEvents || size >= buildBytes) && !flush() {
			return false
		}
	}
	return false
}

// open builds a read model that has nothing yet, or was interrupted in that, up to the head. Until then its rows can be
// read, but are incomplete: status and readiness report that.
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
	err = catchUp(ctx, r.Store, span{after: s.position}, p.model, r.Log, func(next stretch) error {
		if err := s.commit(ctx, next.end(), s.anchor.after(next.events), len(next.events), func(tx pgx.Tx) error {
			return next.project(ctx, tx)
		}); err != nil {
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
	if err := s.update(ctx, "incomplete = $3", incomplete); err != nil {
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
