package projections_test

import (
	"context"
	"errors"
	"fmt"
	"iter"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/eventstore/tail"
	"carillon/projections"
)

const laterName = "later"

// later is a process manager that defers all that it does, until it is let.
type later struct {
	eventstore.ProcessState

	let    chan struct{} // closed: it is done
	waited chan struct{} // a caller waits for it
	failed chan struct{}
	over   chan struct{}
	end    func()

	mu  sync.Mutex
	n   int // events taken on
	err error
}

func newLater() *later {
	l := &later{
		let:    make(chan struct{}),
		waited: make(chan struct{}, 1),
		failed: make(chan struct{}),
		over:   make(chan struct{}),
	}
	l.end = sync.OnceFunc(func() { close(l.over) })
	return l
}

func (l *later) Traits() eventstore.Traits {
	traits := named(laterName)
	traits.Deferred = l
	return traits
}

func (l *later) End()                    { l.end() }
func (l *later) Failed() <-chan struct{} { return l.failed }

func (l *later) React(_ context.Context, batch []eventstore.Recorded) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n += len(batch)
	return nil
}

func (l *later) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.err
}

func (l *later) fail(err error) {
	l.mu.Lock()
	l.err = err
	l.mu.Unlock()
	close(l.failed)
}

func (l *later) Pending() func(context.Context) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == 0 {
		return nil
	}
	return func(ctx context.Context) error {
		select {
		case l.waited <- struct{}{}:
		default:
		}
		select {
		case <-l.let:
			return nil
		case <-l.failed:
			return l.Err()
		case <-l.over:
			return errors.New("ended")
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// reactLater runs process managers, each of which it returns once it is made.
func (w *world) reactLater() (progress *projections.Progress, made <-chan *later, stop func() error) {
	all := make(chan *later, 10)
	progress, stop = w.run(func(ctx context.Context, r *projections.Runner) error {
		return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
			l := newLater()
			all <- l
			return l
		})
	})
	return progress, all, stop
}

func (w *world) checkpoint(name string) eventstore.Position {
	w.Helper()
	statuses := must.Get(projections.Statuses(w.ctx, w.pool))(w)
	for _, s := range statuses {
		if s.Name == name {
			return s.Position
		}
	}
	return eventstore.Start
}

// Deferred work is in no checkpoint before it is done, and then without another event.
func TestDeferred_checkpointWaits(t *testing.T) {
	w := newWorld(t)
	progress, made, _ := w.reactLater()
	l := <-made
	stream := eventstore.StreamName("thing", uuid.New())
	at := w.append(stream, eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, laterName) // it has been taken on
	short, cancel := context.WithTimeout(w.ctx, 1500*time.Millisecond)
	defer cancel()
	assert.True(t, !progress.AwaitRecorded(short, at, laterName), "it counts as recorded")
	if !w.checkpoint(laterName).Before(at) { // a save was due after a second
		t.Error("the checkpoint is past what is deferred")
	}
	next := w.append(stream, 0, "thing.happened.v1")
	w.await(progress, next, laterName)
	recorded := make(chan bool, 1)
	go func() { recorded <- progress.AwaitRecorded(w.ctx, next, laterName) }()
	close(l.let)
	assert.True(t, <-recorded, "it does not count as recorded")
	must.Eventually(t, "the checkpoint follows", func() bool { return !w.checkpoint(laterName).Before(next) })
}

func TestDeferred_endWaits(t *testing.T) {
	w := newWorld(t)
	progress, made, stop := w.reactLater()
	l := <-made
	at := w.happens()
	w.await(progress, at, laterName)
	go func() {
		<-l.waited
		close(l.let)
	}()
	must.OK(t, stop())
	assert.True(t, !w.checkpoint(laterName).Before(at), "finished work is not in the checkpoint")
	select {
	case <-l.over:
	default:
		t.Error("it did not see the end")
	}
}

// A failure in the background ends the session, although no event comes: it starts again from the checkpoint.
func TestDeferred_failureRestarts(t *testing.T) {
	w := newWorld(t)
	progress, made, _ := w.reactLater()
	first := <-made
	w.await(progress, w.happens(), laterName)
	first.fail(errors.New("broken"))
	second := <-made
	<-first.over
	must.Eventually(t, "the event is seen again", func() bool {
		second.mu.Lock()
		defer second.mu.Unlock()
		return second.n == 1
	})
	close(second.let) // else its end waits
}

func TestDeferred_decodeFailureStops(t *testing.T) {
	w := newWorld(t)
	made := make(chan *later, 1)
	ended := make(chan error, 1)
	progress, _ := w.run(func(ctx context.Context, r *projections.Runner) error {
		err := r.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
			l := newLater()
			made <- l
			return l
		})
		ended <- err
		return err
	})
	l := <-made
	w.await(progress, w.happens(), laterName)
	l.fail(fmt.Errorf("%w: another", eventstore.ErrUndecodable))
	assert.Is(t, <-ended, eventstore.ErrUndecodable, "it ended with")
}

// A session that is lost takes what it has deferred with it.
func TestDeferred_lostSessionCancels(t *testing.T) {
	w := newWorld(t)
	progress, made, _ := w.reactLater()
	first := <-made
	at := w.happens()
	w.await(progress, at, laterName)
	w.endSessions()
	<-first.over
	second := <-made
	close(second.let)
	assert.True(t, progress.AwaitRecorded(w.ctx, at, laterName), "it was not done by the next one")
}

// A caller in another process waits for the checkpoint: it is saved early for such a caller.
func TestDeferred_remoteWaiterGetsCheckpoint(t *testing.T) {
	w := newWorld(t)
	all := make(chan *later, 1)
	here, _ := w.run(func(ctx context.Context, r *projections.Runner) error {
		listening := make(chan struct{})
		go func() { defer close(listening); r.Progress.Listen(ctx, r.Locks) }()
		defer func() { <-listening }()
		return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
			l := newLater()
			close(l.let)
			all <- l
			return l
		})
	})
	<-all
	w.listened(here)
	elsewhere := projections.NewProgress(w.pool)
	stream := eventstore.StreamName("thing", uuid.New())
	// One a second is saved unasked: that many would take far longer than the test may.
	for i := range 2 * int(patience/time.Second) {
		at := w.append(stream, eventstore.Revision(i-1), "thing.happened.v1")
		if i%2 == 0 {
			w.await(here, at, laterName) // it has been seen by the time that it is asked for
		}
		w.await(elsewhere, at, laterName)
	}
}

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

// lingers runs a consumer that lingers for longer than the test may take, and waits until it has caught up.
func (w *world) lingers(consume func(context.Context, *projections.Runner) error) *projections.Progress {
	w.Helper()
	caught := make(chan struct{})
	progress, _ := w.run(func(ctx context.Context, r *projections.Runner) error {
		r.Linger = years
		r.Store = &watched{Store: tail.New(r.Store, r.Log), caughtUp: sync.OnceFunc(func() { close(caught) })}
		listening := make(chan struct{})
		go func() { defer close(listening); r.Progress.Listen(ctx, r.Locks) }()
		defer func() { <-listening }()
		return consume(ctx, r)
	})
	select {
	case <-caught:
	case <-time.After(patience):
		w.Fatal("it does not catch up, or does not linger")
	}
	return progress
}

// No caller waits, so one transaction is enough for many events. A waiting reader ends the linger, in the same process
// or in another one.
func TestLinger_readerEndsIt(t *testing.T) {
	w := newWorld(t)
	sizes, model := make(chan int, 1000), tally
	model.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
		sizes <- len(batch)
		return count(ctx, tx, batch)
	}
	here := w.lingers(func(ctx context.Context, r *projections.Runner) error { return r.Project(ctx, model) })
	stream := eventstore.StreamName("thing", uuid.New())
	first := w.append(stream, eventstore.NoStream, "thing.happened.v1")
	w.await(here, first, tally.Name)
	before := len(sizes)
	var last eventstore.Position
	for i := range 20 {
		last = w.append(stream, eventstore.Revision(i), "thing.happened.v1")
	}
	assert.Equal(t, len(sizes)-before, 0, "batches while no reader waited")
	w.await(here, last, tally.Name)

	elsewhere := projections.NewProgress(w.pool)
	w.listened(here)
	for i := range 3 {
		w.await(elsewhere, w.append(stream, eventstore.Revision(20+i), "thing.happened.v1"), tally.Name)
	}
	assert.Equal(t, w.count(stream), 24, "events")
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
	must.Eventually(w, "it hears", func() bool {
		var probe pgx.Batch
		progress.QueueTell(&probe, "probe")
		must.OK(w, w.pool.SendBatch(w.ctx, &probe).Close())
		select {
		case <-heard:
			return true
		default:
			return false
		}
	})
}

const patientName = "patient"

// A process manager that lingers gets events in batches, and at once if it is asked to hurry.
func TestLinger_processManager(t *testing.T) {
	w := newWorld(t)
	seen, traits := make(chan eventstore.Recorded, 1000), named(patientName)
	traits.Lingers = true
	progress := w.lingers(func(ctx context.Context, r *projections.Runner) error {
		return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager { return newRemembering(traits, seen) })
	})
	stream := eventstore.StreamName("thing", uuid.New())
	var last eventstore.Position
	for round := range 2 { // it is in no hurry again after the first
		before := len(seen)
		for i := range 10 {
			last = w.append(stream, eventstore.Revision(10*round+i-1), "thing.happened.v1")
		}
		assert.Equal(t, len(seen)-before, 0, "round %d … events without a hurry", round)
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

// The time at which something becomes due is heard in other processes.
func TestNotifyDue_otherProcess(t *testing.T) {
	w := newWorld(t)
	here := w.runner(w.store, projections.NewProgress(w.pool))
	elsewhere := w.runner(w.store, projections.NewProgress(w.pool))
	ctx, cancel := context.WithCancel(w.ctx)
	heard := make(chan time.Time, 10)
	var listening sync.WaitGroup
	listening.Go(func() { projections.ListenDue(ctx, elsewhere.Locks, func(at time.Time) { heard <- at }) })
	t.Cleanup(func() { cancel(); listening.Wait() })
	hears := func() (at time.Time) {
		select {
		case at = <-heard:
		case <-w.ctx.Done():
			t.Fatal("nothing is heard")
		}
		return at
	}
	assert.True(t, hears().IsZero(), "it listens, and does not know what became due before")
	must.Get(here.Locks.Acquire(w.ctx, 1))(t) // begins a session
	due := time.Now().Add(time.Hour).Truncate(time.Microsecond)
	must.Eventually(t, "the clock of Postgres", func() bool { _, known := here.Locks.Now(); return known })
	projections.NotifyDue(here.Locks, due)
	assert.True(t, hears().Equal(due), "it is due at another time than %s", due)
}
