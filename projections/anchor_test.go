package projections_test

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// lives runs a read model and a process manager on a store until both have taken in its last event, and returns what
// the process manager was given meanwhile.
func (w *world) lives(store *esdb.Store, last uuid.UUID) (seen []uuid.UUID) {
	w.Helper()
	given := make(chan eventstore.Recorded, 1000)
	runner := w.runner(store, projections.NewProgress(w.pool))
	runner.Identity = store.Identity
	ctx, cancel := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	running.Go(func() { _ = runner.Project(ctx, tally) })
	running.Go(func() {
		_ = runner.React(ctx, func(*projections.Tables) eventstore.ProcessManager {
			return newRemembering(named("witness"), given)
		})
	})
	identity := must.Get(store.Identity(w.ctx))(w)
	for here := 0; here < 2 && w.ctx.Err() == nil; { // the process manager saves its checkpoint when it is quiet
		must.OK(w, w.pool.QueryRow(w.ctx, "SELECT count(*) FROM carillon.checkpoints WHERE store = $1 AND last_event = $2",
			identity, last).Scan(&here))
		<-time.After(10 * time.Millisecond)
	}
	cancel()
	running.Wait()
	must.True(w, w.ctx.Err() == nil, "not taken in")
	close(given)
	for event := range given {
		seen = append(seen, event.ID)
	}
	return seen
}

func (w *world) embedded() *esdb.Store {
	return w.store.(*esdb.Store) //nolint:forcetypeassert,errcheck // newWorld made it
}

func things(n int) []eventstore.Proposed {
	list := make([]eventstore.Proposed, n)
	for i := range list {
		list[i] = eventstore.Proposed{ID: uuid.New(), Type: "thing.happened.v1", Data: []byte(`{}`)}
	}
	return list
}

func ids(list []eventstore.Proposed) []uuid.UUID {
	all := make([]uuid.UUID, len(list))
	for i := range list {
		all[i] = list[i].ID
	}
	return all
}

// put appends events and returns the id of the last.
func (w *world) put(
	store *esdb.Store, stream string, expected eventstore.Revision, list []eventstore.Proposed,
) uuid.UUID {
	w.Helper()
	must.Get(store.Append(w.ctx, stream, expected, list))(w)
	return list[len(list)-1].ID
}

func TestAnchor_copyOfStoreContinues(t *testing.T) {
	w := newWorld(t)
	original, stream := w.embedded(), eventstore.StreamName("thing", uuid.New())
	list := things(5)
	last := w.put(original, stream, eventstore.NoStream, list[:3])
	if seen := w.lives(original, last); !slices.Equal(seen, ids(list[:3])) {
		t.Fatalf("given %d events", len(seen))
	}
	// The copy has the same events elsewhere, and two that the process manager has not seen.
	for _, before := range []int{1, 300} { // so that positions are smaller, then larger
		twin := nodetest.Start(t)
		w.put(twin, eventstore.StreamName("other", uuid.New()), eventstore.NoStream, things(before))
		w.put(twin, stream, eventstore.NoStream, list[:3])
		last := w.put(twin, stream, 2, list[3:])
		if before == 1 {
			if seen := w.lives(twin, last); !slices.Equal(seen, ids(list[3:])) {
				t.Errorf("given %v, want the last two of %v", seen, ids(list))
			}
		} else if seen := w.lives(twin, last); len(seen) != 0 {
			t.Errorf("given %d events again in a second copy", len(seen))
		}
		assert.Equal(t, w.count(stream), 5, "the read model counts")
	}
}

func TestAnotherStoreBeginsFromNothing(t *testing.T) {
	w := newWorld(t)
	stream := eventstore.StreamName("thing", uuid.New())
	original := w.embedded()
	w.lives(original, w.put(original, stream, eventstore.NoStream, things(4)))
	foreign, list := nodetest.Start(t), things(2)
	seen := w.lives(foreign, w.put(foreign, stream, eventstore.NoStream, list))
	assert.True(t, slices.Equal(seen, ids(list)), "given %d events, want both", len(seen))
	assert.Equal(t, w.count(stream), 2, "the read model counts")
}

// The same store goes on where it was. Real servers send checkpoints past their newest event.
func TestAnchor_sameStoreContinues(t *testing.T) {
	for name, checkpoint := range map[string]string{
		"as it was": "commit = commit", "past the newest event": "commit = commit + 100000, prepare = 0",
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			store, stream := w.embedded(), eventstore.StreamName("thing", uuid.New())
			list := things(3)
			w.lives(store, w.put(store, stream, eventstore.NoStream, list[:2]))
			must.Get(w.pool.Exec(w.ctx, "UPDATE carillon.checkpoints SET "+checkpoint))(t)
			w.put(store, eventstore.StreamName("other", uuid.New()), eventstore.NoStream, things(100)) // positions only
			seen := w.lives(store, w.put(store, stream, 1, list[2:]))
			assert.True(t, slices.Equal(seen, ids(list[2:])), "given %d events, want the new one", len(seen))
			var events int
			err := w.pool.QueryRow(w.ctx, "SELECT events FROM carillon.checkpoints WHERE name = 'tally'").Scan(&events)
			assert.True(t, err == nil && events == 3, "%d events, %v: it was rebuilt", events, err)
		})
	}
}

// The last event that was taken in may be retired by the next start.
func TestAnchor_retiredEventContinues(t *testing.T) {
	w := newWorld(t)
	store, stream := w.embedded(), eventstore.StreamName("thing", uuid.New())
	w.lives(store, w.put(store, stream, eventstore.NoStream, things(2)))
	must.OK(t, store.Tombstone(w.ctx, stream))
	list, other := things(1), eventstore.StreamName("thing", uuid.New())
	seen := w.lives(store, w.put(store, other, eventstore.NoStream, list))
	assert.Slices(t, seen, ids(list), "given %d events, want the new one", len(seen))
}

// Nor does a rebuild or a verification wait for it once it is gone from the log.
func TestAnchor_scavengedEvent(t *testing.T) {
	w := newWorld(t)
	store, node := nodetest.Open(t, node.Config{Dir: "store", FS: vfs.NewMem(), Logger: slog.New(slog.DiscardHandler)})
	stream := eventstore.StreamName("thing", uuid.New())
	w.put(store, eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, things(1))
	w.lives(store, w.put(store, stream, eventstore.NoStream, things(1)))
	must.OK(t, store.Tombstone(w.ctx, stream))
	w.put(store, eventstore.StreamName("other", uuid.New()), eventstore.NoStream, things(3000)) // fills what is scavenged
	must.Equal(t, must.Get(node.Scavenge(w.ctx, nil))(t).Events, 1, "scavenged")
	r := w.runner(store, projections.NewProgress(w.pool))
	must.Get(r.Verify(w.ctx, tally, 100, nil))(t)
	must.OK(t, r.Rebuild(w.ctx, tally, nil))
	assert.Equal(t, w.count(stream), 0, "it counts")
}

func TestAnOlderBackupBeginsFromNothing(t *testing.T) {
	w := newWorld(t)
	dir, socket := t.TempDir(), nodetest.SocketDir(t)
	// The backup is taken after two events; then a third happens, and all is lost.
	backup := t.TempDir() + "/backup"
	stream, list := eventstore.StreamName("thing", uuid.New()), things(4)
	at := func(name, dir string, work func(*esdb.Store)) {
		t.Helper()
		stop := nodetest.Serve(t, dir, socket+"/"+name)
		store := must.Get(esdb.OpenUnix(socket+"/"+name, slog.New(slog.DiscardHandler)))(t)
		work(store)
		assert.OK(t, store.Close())
		stop()
	}
	at("1", dir, func(store *esdb.Store) {
		w.lives(store, w.put(store, stream, eventstore.NoStream, list[:2]))
	})
	must.OK(t, os.CopyFS(backup, os.DirFS(dir)))
	at("2", dir, func(store *esdb.Store) { w.lives(store, w.put(store, stream, 1, list[2:3])) })
	at("3", backup, func(store *esdb.Store) {
		last := w.put(store, stream, 1, list[3:]) // grown past the checkpoint already
		want := []uuid.UUID{list[0].ID, list[1].ID, list[3].ID}
		assert.Slices(t, w.lives(store, last), want, "given")
	})
	assert.Equal(t, w.count(stream), 3, "the read model counts")
}

// TestInvalidCheckpointIsLeft: real servers refuse a position between two records each time, so the read model is built
// again and the process manager goes on after its last event.
func TestInvalidCheckpointIsLeft(t *testing.T) {
	for name, strict := range map[string]*stricttest.Strict{"23.10": {}, "25.0": {Later: true}} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			store := nodetest.StartStrict(t, strict, slog.New(slog.DiscardHandler))
			stream, list := eventstore.StreamName("thing", uuid.New()), things(3)
			w.lives(store, w.put(store, stream, eventstore.NoStream, list[:2]))
			last := w.put(store, stream, 1, list[2:])
			must.Get(w.pool.Exec(w.ctx, "UPDATE carillon.checkpoints SET commit = commit + 1, prepare = commit + 1"))(t)
			seen := w.lives(store, last)
			assert.True(t, slices.Equal(seen, ids(list[2:])), "given %d events, want the new one", len(seen))
			assert.Equal(t, w.count(stream), 3, "the read model counts")
		})
	}
}
