package projections_test

import (
	"context"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/tail"
	"carillon/projections"
)

// years is a linger that does not end while the test runs: its next multiple is in the year 2101.
const years = 100 * 365 * 24 * time.Hour

// watched reports when its readers who linger have caught up.
type watched struct {
	*tail.Store

	caughtUp func()
}

func (w *watched) Lingering(linger time.Duration, urgent func() <-chan struct{}) eventstore.Store {
	return &watchedReader{Store: w.Store.Lingering(linger, urgent), caughtUp: w.caughtUp}
}

type watchedReader struct {
	eventstore.Store

	caughtUp func()
}

func (r *watchedReader) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		for m, err := range r.Store.Subscribe(ctx, after, filter) {
			if m.CaughtUp {
				r.caughtUp()
			}
			if !yield(m, err) {
				return
			}
		}
	}
}

// patient runs a read model that lingers for longer than the test may take, and counts its batches.
func (w *world) patient() (progress *projections.Progress, batches func() int) {
	w.Helper()
	sizes, caught := make(chan int, 1000), make(chan struct{})
	model := tally
	model.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
		sizes <- len(batch)
		return count(ctx, tx, batch)
	}
	progress, _ = w.run(func(ctx context.Context, r *projections.Runner) error {
		r.Linger = years
		r.Store = &watched{Store: tail.New(r.Store, r.Log), caughtUp: sync.OnceFunc(func() { close(caught) })}
		listening := make(chan struct{})
		go func() { defer close(listening); r.Progress.Listen(ctx, r.Locks) }()
		defer func() { <-listening }()
		return r.Project(ctx, model)
	})
	select {
	case <-caught:
	case <-time.After(patience):
		w.Fatal("the read model does not catch up")
	}
	return progress, func() int { return len(sizes) }
}

// No caller waits, so one transaction is enough for many events. A waiting reader ends the linger, in the same process
// or in another one.
func TestLinger_readerEndsIt(t *testing.T) {
	w := newWorld(t)
	here, batches := w.patient()
	stream := eventstore.StreamName("thing", uuid.New())
	first := w.append(stream, eventstore.NoStream, "thing.happened.v1")
	w.await(here, first, tally.Name)
	before := batches()
	var last eventstore.Position
	for i := range 20 {
		last = w.append(stream, eventstore.Revision(i), "thing.happened.v1")
	}
	if n := batches() - before; n != 0 {
		t.Errorf("%d batches while no reader waited", n)
	}
	w.await(here, last, tally.Name)

	elsewhere := projections.NewProgress(w.pool)
	w.listened(here)
	for i := range 3 {
		w.await(elsewhere, w.append(stream, eventstore.Revision(20+i), "thing.happened.v1"), tally.Name)
	}
	if n := w.count(stream); n != 24 {
		t.Errorf("%d events, want 24", n)
	}
}

// listened waits until a process hears what others notify it of.
func (w *world) listened(progress *projections.Progress) {
	w.Helper()
	heard := make(chan struct{}, 1)
	progress.OnNotified("probe", func() {
		select {
		case heard <- struct{}{}:
		default:
		}
	})
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for {
		var probe pgx.Batch
		progress.QueueTell(&probe, "probe")
		if err := w.pool.SendBatch(w.ctx, &probe).Close(); err != nil {
			w.Fatal(err)
		}
		select {
		case <-heard:
			return
		case <-tick.C:
		}
	}
}

const patientName = "patient"

// patientManager is a process manager that need not act at once.
type patientManager struct {
	eventstore.ProcessState

	seen chan<- eventstore.Position
}

func (patientManager) Traits() eventstore.Traits {
	traits := (&remembering{name: patientName}).Traits()
	traits.Lingers = true
	return traits
}

func (p patientManager) React(_ context.Context, batch []eventstore.Recorded) error {
	for _, event := range batch {
		p.seen <- event.Position
	}
	return nil
}

// A process manager that lingers gets events in batches, and at once if it is asked to hurry.
func TestLinger_processManager(t *testing.T) {
	w := newWorld(t)
	seen, caught := make(chan eventstore.Position, 1000), make(chan struct{})
	progress, _ := w.run(func(ctx context.Context, r *projections.Runner) error {
		r.Linger = years
		r.Store = &watched{Store: tail.New(r.Store, r.Log), caughtUp: sync.OnceFunc(func() { close(caught) })}
		return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager { return &patientManager{seen: seen} })
	})
	select {
	case <-caught:
	case <-time.After(patience):
		t.Fatal("it does not catch up, or does not linger")
	}
	stream := eventstore.StreamName("thing", uuid.New())
	var last eventstore.Position
	for round := range 2 { // it is in no hurry again after the first
		before := len(seen)
		for i := range 10 {
			last = w.append(stream, eventstore.Revision(10*round+i-1), "thing.happened.v1")
		}
		if n := len(seen) - before; n != 0 {
			t.Errorf("round %d: %d events without a hurry", round, n)
		}
		progress.Hurry(patientName, last)
		for range 10 {
			select {
			case <-seen:
			case <-time.After(patience):
				t.Fatal("it was asked to hurry, and does not")
			}
		}
		w.await(progress, last, patientName) // until it has said so itself
	}
}
