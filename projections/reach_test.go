package projections_test

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"sync"
	"testing"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/projecttest"
)

// severed is the store as a process sees it whose packets to it vanish while it is cut.
type severed struct {
	eventstore.Store

	mu  sync.Mutex
	cut chan struct{} // closed when it is mended; nil means it is whole
}

func (s *severed) sever() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.cut = make(chan struct{})
}

func (s *severed) mend() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.cut)
	s.cut = nil
}

// pass waits while it is cut, and fails if it was.
func (s *severed) pass(ctx context.Context) error {
	s.mu.Lock()
	cut := s.cut
	s.mu.Unlock()
	if cut == nil {
		return nil
	}
	select {
	case <-cut:
		return eventstore.ErrUnavailable
	case <-ctx.Done():
		return ctx.Err()
	}
}

func (s *severed) Head(ctx context.Context) (eventstore.Position, error) {
	if err := s.pass(ctx); err != nil {
		return eventstore.Start, err
	}
	return s.Store.Head(ctx)
}

func (s *severed) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if err := s.pass(ctx); err != nil {
		return eventstore.Appended{}, err
	}
	return s.Store.Append(ctx, stream, expected, events)
}

func (s *severed) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for message, err := range s.Store.Subscribe(ctx, after, filter) {
			if cut := s.pass(ctx); cut != nil {
				yield(eventstore.Message{}, cut)
				return
			}
			if !yield(message, err) {
				return
			}
		}
	}
}

// half is one of two processes, with its own way to the store.
type half struct {
	*severed

	runner *projections.Runner
	name   string
}

func (w *world) half(name string) *half {
	store := &severed{Store: w.store}
	h := &half{severed: store, name: name}
	h.runner = projecttest.Runner(w.T, w.pool, store)
	h.runner.Log, h.runner.Linger = slog.New(slog.NewTextHandler(w.Output(), nil)).With("process", name), time.Millisecond
	h.runner.Reach = &reach.Watch{
		Name: "store",
		Beat: 20 * time.Millisecond,
		Log:  slog.New(slog.DiscardHandler),
		Ask: func(ctx context.Context) error {
			_, err := store.Head(ctx)
			return err
		},
	}
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() { h.runner.Reach.Run(ctx) })
	for _, work := range []func(context.Context) error{
		func(ctx context.Context) error { return h.runner.Project(ctx, tally) },
		func(ctx context.Context) error {
			return h.runner.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
				return newRemembering(named(rememberingName), make(chan eventstore.Recorded, 1000))
			})
		},
	} {
		running.Go(func() {
			err := work(ctx)
			assert.True(w, err == nil || errors.Is(err, context.Canceled), "%s: %v", name, err)
		})
	}
	w.Cleanup(func() { cancel(); running.Wait() })
	return h
}

// A process that is cut off from the store alone gives its locks to a connected one, and two that are cut off hold
// none.
func TestCutOffRunnerGivesUpItsLocks(t *testing.T) {
	w := newWorld(t)
	seen := func(what string) { // by Postgres, which any process may write
		w.Helper()
		at := w.happens()
		for _, name := range []string{tally.Name, rememberingName} {
			must.True(t, projections.NewProgress(w.pool).Await(w.ctx, at, name), "%s: %s stands still", what, name)
		}
	}
	running := func() (n int) {
		w.Helper()
		statuses := must.Get(projections.Statuses(w.ctx, w.pool))(t)
		for _, s := range statuses {
			if s.Process != "" {
				n++
			}
		}
		return n
	}
	first := w.half("first")
	seen("at first")
	second := w.half("second")
	first.sever()
	seen("after the first was cut off")
	second.sever()
	must.Eventually(t, "two that are cut off hold no locks", func() bool { return running() == 0 })
	first.mend()
	seen("after the first is back")
	second.mend()
	first.sever()
	seen("after the second is back")
}
