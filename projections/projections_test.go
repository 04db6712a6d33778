package projections_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/projecttest"
)

const patience = 2 * time.Minute

// tally is the smallest read model: how many events each stream has.
var tally = projections.ReadModel{
	Name:    "tally",
	Version: 1,
	Schema:  "CREATE TABLE counts (stream text PRIMARY KEY, n integer NOT NULL);",
	Filter:  eventstore.Categories("thing"),
	Project: count,
}

func count(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	for i := range batch {
		if batch[i].Type != "thing.happened.v1" {
			return fmt.Errorf("%w: %s", eventstore.ErrUndecodable, batch[i].Type)
		}
		_, err := tx.Exec(ctx, `INSERT INTO counts VALUES ($1, 1) ON CONFLICT (stream) DO UPDATE
			SET n = counts.n + 1`, batch[i].Stream)
		if err != nil {
			return err
		}
	}
	return nil
}

// world is a store and a database of one test.
type world struct {
	*testing.T
	store eventstore.Store
	pool  *pgxpool.Pool
	ctx   context.Context
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{
		T:     t,
		store: nodetest.Start(t),
		pool:  projecttest.Pool(t),
		ctx:   ctx,
	}
	return w
}

// runner makes a runner without a log.
func (w *world) runner(store eventstore.Store, progress *projections.Progress) *projections.Runner {
	w.Helper()
	r := projecttest.Runner(w.T, w.pool, store)
	r.Progress = progress
	return r
}

// run starts a runner; stop waits until it has ended and returns its error.
func (w *world) run(
	work func(context.Context, *projections.Runner) error,
) (progress *projections.Progress, stop func() error) {
	progress = projections.NewProgress(w.pool)
	runner := w.runner(w.store, progress)
	ctx, cancel := context.WithCancel(w.ctx)
	ended := make(chan error, 1)
	go func() { ended <- work(ctx, runner) }()
	var err error
	stopped := false
	stop = func() error {
		if !stopped {
			cancel()
			err, stopped = <-ended, true
		}
		return err
	}
	w.Cleanup(func() { _ = stop() })
	return progress, stop
}

func (w *world) project(p projections.ReadModel) (*projections.Progress, func() error) {
	return w.run(func(ctx context.Context, r *projections.Runner) error { return r.Project(ctx, p) })
}

func (w *world) append(stream string, expected eventstore.Revision, kind string) eventstore.Position {
	w.Helper()
	appended := must.Get(w.store.Append(w.ctx, stream, expected, []eventstore.Proposed{{
		ID:   uuid.New(),
		Type: kind,
		Data: []byte(`{}`),
	}}))(w)
	return appended.Position
}

// happens appends an event to a stream of its own.
func (w *world) happens() eventstore.Position {
	w.Helper()
	return w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
}

// begun projects a model of tallies that has the first event of a stream.
func (w *world) begun(p projections.ReadModel) (progress *projections.Progress, stream string, stop func() error) {
	w.Helper()
	stream = eventstore.StreamName("thing", uuid.New())
	progress, stop = w.project(p)
	w.await(progress, w.append(stream, eventstore.NoStream, "thing.happened.v1"), tally.Name)
	return progress, stream, stop
}

// remembers runs a process manager that says what it sees.
func (w *world) remembers(seen chan<- eventstore.Recorded) (*projections.Progress, func() error) {
	return w.run(func(ctx context.Context, r *projections.Runner) error {
		return r.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
			return newRemembering(named(rememberingName), seen)
		})
	})
}

func (w *world) count(stream string) (n int) {
	w.Helper()
	err := w.pool.QueryRow(w.ctx, "SELECT n FROM tally.counts WHERE stream = $1", stream).Scan(&n)
	must.True(w, err == nil || errors.Is(err, pgx.ErrNoRows), "%v", err)
	return n
}

func (w *world) await(progress *projections.Progress, at eventstore.Position, name string) {
	w.Helper()
	must.True(w, progress.Await(w.ctx, at, name), "%s did not get to %s", name, at)
}

func TestAnAcknowledgedWriteIsReadAfterAwait(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	stream := eventstore.StreamName("thing", uuid.New())
	for i := range 20 {
		at := w.append(stream, eventstore.Revision(i-1), "thing.happened.v1")
		w.await(progress, at, tally.Name)
		if got := w.count(stream); got != i+1 {
			t.Fatalf("count = %d after %d events", got, i+1)
		}
	}
}

func TestAwaitGivesUpWithItsContext(t *testing.T) {
	w := newWorld(t)
	ctx, cancel := context.WithTimeout(w.ctx, 20*time.Millisecond)
	defer cancel()
	assert.True(t, !projections.NewProgress(w.pool).Await(ctx, eventstore.Position{Commit: 1, Prepare: 1}, tally.Name),
		"a projection that does not run was awaited")
}

func TestEachEventIsProjectedOnceOverRestarts(t *testing.T) {
	w := newWorld(t)
	stream := eventstore.StreamName("thing", uuid.New())
	for round := range 4 {
		progress, stop := w.project(tally)
		for i := range 10 {
			at := w.append(stream, eventstore.Revision(round*10+i-1), "thing.happened.v1")
			if i%3 == 0 {
				w.await(progress, at, tally.Name)
			}
		}
		must.OK(t, stop())
	}
	at := w.append(stream, 39, "thing.happened.v1")
	progress, _ := w.project(tally)
	w.await(progress, at, tally.Name)
	assert.Equal(t, w.count(stream), 41, "count")
}

func TestTwoRunnersTakeTurnsAndNeverBothWrite(t *testing.T) {
	w := newWorld(t)
	first, stream, stopFirst := w.begun(tally)
	second, _ := w.project(tally)
	w.await(first, w.append(stream, 0, "thing.happened.v1"), tally.Name)
	must.OK(t, stopFirst())
	w.await(second, w.append(stream, 1, "thing.happened.v1"), tally.Name)
	assert.Equal(t, w.count(stream), 3, "count")
}

func TestLostPostgresSession_resumes(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	stream := eventstore.StreamName("thing", uuid.New())
	for i := range 5 {
		w.await(progress, w.append(stream, eventstore.Revision(i-1), "thing.happened.v1"), tally.Name)
		w.endSessions()
	}
	w.await(projections.NewProgress(w.pool), w.append(stream, 4, "thing.happened.v1"), tally.Name)
	assert.Equal(t, w.count(stream), 6, "count")
}

func TestUndecodableEvent_stopsWithoutCheckpoint(t *testing.T) {
	w := newWorld(t)
	good := w.happens()
	progress, stop := w.project(tally)
	w.await(progress, good, tally.Name)
	bad := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.exploded.v1")
	var stopped string
	must.Eventually(t, "it stops", func() bool {
		must.OK(t, w.pool.QueryRow(w.ctx, "SELECT coalesce(stopped, '') FROM carillon.checkpoints WHERE name = 'tally'").
			Scan(&stopped))
		return stopped != ""
	})
	assert.Is(t, stop(), eventstore.ErrUndecodable, "error")
	assert.True(t, strings.Contains(stopped, "thing.exploded.v1"), "stopped = %q, want it to name the event", stopped)
	var commit uint64 // servers may send a checkpoint between two events
	err := w.pool.QueryRow(w.ctx, "SELECT commit FROM carillon.checkpoints WHERE name = 'tally'").Scan(&commit)
	assert.True(t, err == nil && commit >= good.Commit && commit < bad.Commit,
		"checkpoint = %d, %v, want %d", commit, err, good.Commit)
}

// twice is count, of another version.
func twice(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
	return errors.Join(count(ctx, tx, batch), count(ctx, tx, batch))
}

// A read model of another version, or with another schema, is built again, beside the one that is read until then.
func TestAnotherVersion_rebuilds(t *testing.T) {
	next, other := tally, tally
	next.Version, next.Project = 2, twice
	other.Schema += "CREATE TABLE more (x int);"
	for name, of := range map[string]struct {
		model  projections.ReadModel
		tables int
		counts int
	}{"version": {next, 1, 2}, "schema": {other, 2, 1}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			_, stream, stop := w.begun(tally)
			must.OK(t, stop())
			held := of.model
			held.Project = slow(nil).Project
			_, stop = w.project(held)
			w.status("it is being built", func(s projections.Status) bool { return s.BuildTo > 0 && !s.Has(held) })
			if got := w.count(stream); got != 1 {
				t.Errorf("meanwhile it counts %d, want the 1 of before", got)
			}
			must.OK(t, stop())
			w.project(of.model)
			for tables := 0; tables != of.tables || w.count(stream) != of.counts; {
				must.OK(t, w.pool.QueryRow(w.ctx, "SELECT count(*) FROM pg_tables WHERE schemaname = 'tally'").
					Scan(&tables))
			}
		})
	}
}

// Of two versions that run at once, that which was started last has its tables, and then the other one.
func TestTwoVersionsAtOnce(t *testing.T) {
	w := newWorld(t)
	newer := tally
	newer.Version, newer.Project = 2, twice
	_, stream, _ := w.begun(tally)
	progress, stop := w.project(newer)
	w.status("the newer version has its tables", func(s projections.Status) bool { return s.Has(newer) })
	w.await(progress, w.append(stream, 0, "thing.happened.v1"), tally.Name)
	if got := w.count(stream); got != 4 {
		t.Errorf("the newer version counts %d, want 4", got)
	}
	must.OK(t, stop())
	w.status("the older version has its tables", func(s projections.Status) bool { return s.Has(tally) })
	if got := w.count(stream); got != 2 {
		t.Errorf("the older version counts %d, want 2", got)
	}
}

func TestRebuild_servesOldUntilSwap(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	stream := eventstore.StreamName("thing", uuid.New())
	revision := eventstore.NoStream
	happen := func() eventstore.Position {
		at := w.append(stream, revision, "thing.happened.v1")
		revision++
		return at
	}
	for range 30 {
		happen()
	}
	w.await(progress, happen(), tally.Name)
	if _, err := w.pool.Exec(w.ctx, "UPDATE tally.counts SET n = 1000"); err != nil { // a damaged read model
		t.Fatal(err)
	}
	writing := make(chan eventstore.Position)
	go func() { // more happens all the while
		var at eventstore.Position
		for range 50 {
			at = happen()
		}
		writing <- at
	}()
	runner := w.runner(w.store, progress)
	reports := 0
	must.OK(t, runner.Rebuild(w.ctx, tally, func(_, _ eventstore.Position) { reports++ }))
	w.await(progress, <-writing, tally.Name)
	w.await(progress, happen(), tally.Name)
	assert.Equal(t, w.count(stream), 82, "count … after the rebuild")
	assert.True(t, reports >= 2, "%d reports of progress", reports)
}

func TestRebuild_oneAtATime(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	w.await(progress, w.happens(), tally.Name)
	runner := w.runner(w.store, progress)
	var second error
	err := runner.Rebuild(w.ctx, tally, func(at, _ eventstore.Position) {
		if at == eventstore.Start {
			second = runner.Rebuild(w.ctx, tally, nil)
		}
	})
	assert.True(t, err == nil && errors.Is(second, projections.ErrRebuilding),
		"errors = %v, %v; want the second to be refused", err, second)
}

func TestRebuild_failureLeavesOldInPlace(t *testing.T) {
	w := newWorld(t)
	progress, stream, _ := w.begun(tally)
	ctx, cancel := context.WithCancel(w.ctx)
	cancel()
	runner := w.runner(w.store, progress)
	assert.True(t, runner.Rebuild(ctx, tally, nil) != nil, "a rebuild without a context succeeded")
	w.await(progress, w.append(stream, 0, "thing.happened.v1"), tally.Name)
	assert.Equal(t, w.count(stream), 2, "count")
}

// rememberingName is the name of the process manager that tests watch.
const rememberingName = "remembering"

// waitingForCheckpoints reports whether a session waits for the table that the test has locked.
func (w *world) waitingForCheckpoints() (waits bool) {
	w.Helper()
	const ask = "SELECT EXISTS (SELECT FROM pg_locks WHERE relation = 'carillon.checkpoints'::regclass AND NOT granted)"
	must.OK(w, w.pool.QueryRow(w.ctx, ask).Scan(&waits))
	return waits
}

// Postgres does not answer, as when it is frozen: events are reacted to meanwhile, and saved afterwards.
func TestSlowSavesHoldUpNoReaction(t *testing.T) {
	w := newWorld(t)
	seen := make(chan eventstore.Recorded, 1000)
	progress, stop := w.remembers(seen)
	first := w.happens()
	w.await(progress, first, rememberingName)
	<-seen
	tx := must.Get(w.pool.Begin(w.ctx))(t)
	must.Get(tx.Exec(w.ctx, "LOCK TABLE carillon.checkpoints IN ACCESS EXCLUSIVE MODE"))(t)
	var last eventstore.Position
	const during = 10 // events while a save waits
	for n := 0; n < during; {
		if n > 0 || w.waitingForCheckpoints() {
			n++
		}
		last = w.happens()
		select {
		case <-seen:
		case <-w.ctx.Done():
			t.Fatal("an event waits for the save")
		}
	}
	must.OK(t, tx.Rollback(w.ctx))
	must.OK(t, stop())
	w.await(projections.NewProgress(w.pool), last, rememberingName)
}

// endSessions ends the sessions of all locks.
func (w *world) endSessions() {
	w.Helper()
	must.Get(w.pool.Exec(w.ctx, `SELECT pg_terminate_backend(pid, 10000) FROM pg_stat_activity
		WHERE datname = current_database() AND application_name LIKE 'carillon locks on %'`))(w)
}
