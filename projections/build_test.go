package projections_test

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/sessionlock"
)

// slow is the tally when each batch waits for the gate.
func slow(gate <-chan struct{}) projections.ReadModel {
	model := tally
	model.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
		select {
		case <-gate:
		case <-ctx.Done():
			return ctx.Err()
		}
		return count(ctx, tx, batch)
	}
	return model
}

// serve runs a read model on a store; stop ends it as a crash would.
func (w *world) serve(store *esdb.Store, model projections.ReadModel) (r *projections.Runner, stop func()) {
	w.Helper()
	r = w.runner(store, projections.NewProgress(w.pool))
	r.Identity = store.Identity
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = r.Project(ctx, model) })
	stop = func() { cancel(); running.Wait() }
	w.Cleanup(stop)
	return r, stop
}

// status waits until the tally's status is as wanted.
func (w *world) status(what string, wanted func(projections.Status) bool) (found projections.Status) {
	w.Helper()
	must.Eventually(w, what, func() bool {
		for _, found = range must.Get(projections.Statuses(w.ctx, w.pool))(w) {
			if found.Name == tally.Name && wanted(found) {
				return true
			}
		}
		return false
	})
	return found
}

// reached reports whether a read model settles within a while.
func (w *world) reached(r *projections.Runner) bool {
	w.Helper()
	ctx, cancel := context.WithTimeout(w.ctx, 300*time.Millisecond)
	defer cancel()
	err := r.Wait(tally).For(ctx, patience)
	// the store's clock may be the first to say that the while is over
	must.True(w, err == nil || ctx.Err() != nil || errors.Is(err, eventstore.ErrUnavailable), "%v", err)
	return err == nil
}

// The store is exchanged. The old read model serves until that of the new store is complete, over a crash too, and
// process managers that act on its rows wait.
func TestAnotherStore_oldServesUntilNewIsBuilt(t *testing.T) {
	w := newWorld(t)
	stream, original, foreign := eventstore.StreamName("thing", uuid.New()), w.embedded(), nodetest.Start(t)
	w.lives(original, w.put(original, stream, eventstore.NoStream, things(4)))
	w.put(foreign, stream, eventstore.NoStream, things(1))
	last := must.Get(foreign.Append(w.ctx, stream, 0, things(1)))(t)
	for range 2 {
		r, stop := w.serve(foreign, slow(nil))
		w.status("it is being rebuilt", func(s projections.Status) bool { return s.Outdated != "" && s.BuildTo > 0 })
		assert.Equal(t, w.count(stream), 4, "meanwhile it counts")
		waiting, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
		assert.True(t, !r.Progress.Await(waiting, last.Position, tally.Name),
			"the old read model counts as one with the new event")
		cancel()
		assert.True(t, !w.reached(r), "callers would act on old rows")
		stop()
	}
	r, _ := w.serve(foreign, tally)
	must.OK(t, r.Wait(tally).For(w.ctx, patience))
	assert.Equal(t, w.count(stream), 2, "it counts")
	s := w.status("it is whole", func(s projections.Status) bool { return s.Outdated == "" && s.Process != "" })
	assert.True(t, !s.Incomplete && s.BuildTo == 0 && s.Events == 2 && s.Process == sessionlock.Process(),
		"status = %+v", s)
}

// A swap and those who go by the checkpoint exclude each other: other sessions of Postgres find the old rows for a
// moment after the swap's checkpoint can be seen.
func TestSwap_excludesReaders(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	at := w.happens()
	w.await(progress, at, tally.Name)
	r := w.runner(w.store, projections.NewProgress(w.pool))
	must.True(t, w.reached(r), "it isn't settled")
	hold := func(lock string) (release func()) {
		tx := must.Get(w.pool.Begin(w.ctx))(t)
		must.Get(tx.Exec(w.ctx, "SELECT "+lock+"($1)", projections.SwapKey(tally.Name)))(t)
		release = func() { _ = tx.Rollback(w.ctx) }
		t.Cleanup(release)
		return release
	}
	release := hold("pg_advisory_xact_lock") // a swap
	assert.True(t, !w.reached(r), "it is settled before other sessions hear of the swap")
	short, cancel := context.WithTimeout(w.ctx, 100*time.Millisecond)
	defer cancel()
	assert.True(t, r.Progress.Stored(short, tally.Name).Before(at), "a waiter goes on before that")
	release()
	release = hold("pg_advisory_xact_lock_shared") // a reader
	swapped := make(chan error, 1)
	go func() { swapped <- r.Rebuild(w.ctx, tally, nil) }()
	select {
	case err := <-swapped:
		t.Fatal("swapped beside a reader:", err)
	case <-time.After(500 * time.Millisecond):
	}
	release()
	must.OK(t, <-swapped)
	must.OK(t, r.Wait(tally).For(w.ctx, patience))
}

// Readers of the checkpoint don't wait for a swap that waits for another one, or for analysts.
func TestSwap_waitsWithoutReaders(t *testing.T) {
	w := newWorld(t)
	viewed := tally
	viewed.Name = "destinations" // analysts' views are on it
	must.OK(t, projections.EnsureSchema(w.ctx, w.pool, viewed))
	other := must.Get(w.pool.Begin(w.ctx))(t)
	t.Cleanup(func() { _ = other.Rollback(w.ctx) })
	must.OK(t, analytics.Create(w.ctx, other))
	r, swapped := w.runner(w.store, projections.NewProgress(w.pool)), make(chan error, 1)
	go func() { swapped <- r.Rebuild(w.ctx, viewed, nil) }()
	scan := func(sql string, arguments ...any) (found bool) {
		must.OK(t, other.QueryRow(w.ctx, sql, arguments...).Scan(&found))
		return found
	}
	must.Eventually(t, "the swap waits", func() bool {
		return scan(`SELECT EXISTS (SELECT FROM pg_locks JOIN pg_database d ON d.oid = database
			WHERE datname = current_database() AND locktype = 'advisory' AND NOT granted)`)
	})
	assert.True(t, scan("SELECT pg_try_advisory_xact_lock_shared($1)", projections.SwapKey(viewed.Name)), "readers wait")
	must.OK(t, other.Rollback(w.ctx))
	must.OK(t, <-swapped)
}

// stalling is a store whose second subscription hangs.
type stalling struct {
	eventstore.Store

	asked atomic.Int32
}

func (s *stalling) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	if s.asked.Add(1) != 2 {
		return s.Store.Subscribe(ctx, after, filter)
	}
	return func(yield func(eventstore.Message, error) bool) {
		<-ctx.Done()
		yield(eventstore.Message{}, ctx.Err())
	}
}

// The store hangs while a rebuild or a verification holds the checkpoint: it lets it go and tries again.
func TestRebuild_triesAgain(t *testing.T) {
	type report = func(at, head eventstore.Position)
	for name, do := range map[string]func(context.Context, *projections.Runner, report) (projections.Verification, error){
		"rebuild": func(ctx context.Context, r *projections.Runner, report report) (v projections.Verification, err error) {
			return v, r.Rebuild(ctx, tally, report)
		},
		"verification": func(ctx context.Context, r *projections.Runner, report report) (projections.Verification, error) {
			return r.Verify(ctx, tally, 100, report)
		},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			progress, stream, _ := w.begun(tally)
			store := &stalling{Store: w.store}
			happened := false
			v, err := do(w.ctx, w.runner(store, progress), func(at, _ eventstore.Position) {
				if at != eventstore.Start && !happened {
					happened = true
					w.await(progress, w.append(stream, 0, "thing.happened.v1"), tally.Name)
				}
			})
			must.OK(t, err)
			assert.True(t, v.Differing == 0 && store.asked.Load() > 2, "%+v, asked %d times", v, store.asked.Load())
			w.await(progress, w.append(stream, 1, "thing.happened.v1"), tally.Name)
			assert.Equal(t, w.count(stream), 3, "it counts")
		})
	}
}

// No old read model serves: the new rows can be read, and the status reports that they are incomplete.
func TestFirstBuild_incompleteUntilHead(t *testing.T) {
	w := newWorld(t)
	stream, store := eventstore.StreamName("thing", uuid.New()), w.embedded()
	w.put(store, stream, eventstore.NoStream, things(3))
	r, stop := w.serve(store, slow(nil))
	w.status("it is incomplete", func(s projections.Status) bool { return s.Incomplete && s.BuildTo > 0 && s.Built == 0 })
	assert.True(t, !w.reached(r), "callers would miss some rows")
	stop()
	w.status("no process runs it", func(s projections.Status) bool { return s.Process == "" })
	r, _ = w.serve(store, tally)
	must.OK(t, r.Wait(tally).For(w.ctx, patience))
	if s := w.status("it is whole", func(s projections.Status) bool { return !s.Incomplete }); s.BuildTo != 0 ||
		w.count(stream) != 3 {
		t.Errorf("status = %+v, it counts %d", s, w.count(stream))
	}
}

// An older backup of Postgres has an older checkpoint of the same store: it goes on from there, and its rows are not
// acted on until it has caught up.
func TestOlderCheckpoint_settledAtHeadOnly(t *testing.T) {
	w := newWorld(t)
	stream, store := eventstore.StreamName("thing", uuid.New()), w.embedded()
	w.lives(store, w.put(store, stream, eventstore.NoStream, things(2)))
	w.put(store, stream, 1, things(700))
	r, stop := w.serve(store, slow(nil))
	assert.True(t, !w.reached(r), "callers would act on old rows")
	stop()
	r, _ = w.serve(store, tally)
	must.OK(t, r.Wait(tally).For(w.ctx, patience))
	assert.Equal(t, w.count(stream), 702, "it counts")
}

// unsure is a store whose first subscriptions end before their first message.
type unsure struct {
	eventstore.Store

	asked atomic.Bool
}

func (u *unsure) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	if u.asked.Swap(true) {
		return u.Store.Subscribe(ctx, after, filter)
	}
	return func(yield func(eventstore.Message, error) bool) {
		yield(eventstore.Message{}, eventstore.ErrUnavailable)
	}
}

// If the head could not be read in time, it is read again, instead of taking the part that was read for all.
func TestBuild_partialHeadIsNoGoal(t *testing.T) {
	w := newWorld(t)
	progress, stream, stop := w.begun(tally)
	_ = stop()
	for i := range 3 {
		w.append(stream, eventstore.Revision(i), "thing.happened.v1")
	}
	r := w.runner(&unsure{Store: w.store}, progress)
	wait := r.Wait(tally)
	if err := wait.For(w.ctx, patience); !errors.Is(err, eventstore.ErrUnavailable) {
		t.Fatalf("err = %v, want that it could not be found out", err)
	}
	if err := wait.For(w.ctx, 100*time.Millisecond); !errors.Is(err, projections.ErrBehind) &&
		!errors.Is(err, eventstore.ErrUnavailable) { // as in reached
		t.Errorf("settled (%v) although three events are missing", err)
	}
	w.project(tally)
	if err := wait.For(w.ctx, patience); err != nil || w.count(stream) != 4 {
		t.Errorf("settled (%v) with %d of 4 events", err, w.count(stream))
	}
}

// Readers count while the read model is rebuilt again and again and grows: no count is less than the one before.
// Each count is one statement: Postgres takes its snapshot after it has resolved the names. In an older snapshot
// the new tables lack rows; how lists of several statements stand that shows TestListDuringRebuildIsOfOneSide.
func TestRebuild_totalNeverFalls(t *testing.T) {
	w := newWorld(t)
	progress, _, _ := w.begun(tally)
	ctx, stop := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	// during one rebuild: on a busy machine more would take longer than all that is there
	growth := make(chan struct{}, 100)
	running.Go(func() {
		for range growth {
			at := w.happens()
			_ = progress.Await(ctx, at, tally.Name) // so that rebuilds catch up
		}
	})
	for range 2 {
		running.Go(func() {
			for last := 0; ctx.Err() == nil; {
				n := 0
				//nolint:contextcheck // the one of the test: a statement in progress is not cut off
				err := w.pool.QueryRow(w.ctx, "SELECT sum(n) FROM tally.counts").Scan(&n)
				assert.True(t, err == nil && n >= last, "total = %d after %d, %v", n, last, err)
				last = max(last, n)
			}
		})
	}
	runner := w.runner(w.store, progress)
	for range 10 {
		for len(growth) < cap(growth) {
			growth <- struct{}{}
		}
		must.OK(t, runner.Rebuild(w.ctx, tally, nil))
	}
	close(growth)
	stop()
	running.Wait()
}
