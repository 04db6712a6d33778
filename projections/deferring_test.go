package projections_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
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
	traits := (&remembering{name: laterName}).Traits()
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
	statuses, err := projections.Statuses(w.ctx, w.pool)
	if err != nil {
		w.Fatal(err)
	}
	for _, s := range statuses {
		if s.Name == name {
			return s.Position
		}
	}
	return eventstore.Start
}

func (w *world) within(what string, is func() bool) {
	w.Helper()
	for tick := time.NewTicker(5 * time.Millisecond); !is(); {
		select {
		case <-tick.C:
		case <-w.ctx.Done():
			w.Fatal(what)
		}
	}
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
	if progress.AwaitRecorded(short, at, laterName) {
		t.Error("it counts as recorded")
	}
	if !w.checkpoint(laterName).Before(at) { // a save was due after a second
		t.Error("the checkpoint is past what is deferred")
	}
	next := w.append(stream, 0, "thing.happened.v1")
	w.await(progress, next, laterName)
	recorded := make(chan bool, 1)
	go func() { recorded <- progress.AwaitRecorded(w.ctx, next, laterName) }()
	close(l.let)
	if !<-recorded {
		t.Error("it does not count as recorded")
	}
	w.within("the checkpoint stays behind", func() bool { return !w.checkpoint(laterName).Before(next) })
}

func TestDeferred_endWaits(t *testing.T) {
	w := newWorld(t)
	progress, made, stop := w.reactLater()
	l := <-made
	at := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, laterName)
	go func() {
		<-l.waited
		close(l.let)
	}()
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	if w.checkpoint(laterName).Before(at) {
		t.Error("finished work is not in the checkpoint")
	}
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
	at := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, laterName)
	first.fail(errors.New("broken"))
	second := <-made
	<-first.over
	w.within("the event is not seen again", func() bool {
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
	w.await(progress, w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1"),
		laterName)
	l.fail(fmt.Errorf("%w: another", eventstore.ErrUndecodable))
	if err := <-ended; !errors.Is(err, eventstore.ErrUndecodable) {
		t.Errorf("it ended with %v", err)
	}
}

// A session that is lost takes what it has deferred with it.
func TestDeferred_lostSessionCancels(t *testing.T) {
	w := newWorld(t)
	progress, made, _ := w.reactLater()
	first := <-made
	at := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
	w.await(progress, at, laterName)
	w.endSessions()
	<-first.over
	second := <-made
	close(second.let)
	if !progress.AwaitRecorded(w.ctx, at, laterName) {
		t.Error("it was not done by the next one")
	}
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
