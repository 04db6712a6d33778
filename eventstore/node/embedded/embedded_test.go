package embedded_test

import (
	"context"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func open(t *testing.T, files vfs.FS) *node.Node {
	t.Helper()
	n := must.Get(node.Open(node.Config{Dir: "store", FS: files}))(t)
	t.Cleanup(func() {
		must.OK(t, n.Close())
	})
	return n
}

func proposed(n int) []eventstore.Proposed {
	list := make([]eventstore.Proposed, n)
	for i := range list {
		list[i] = eventstore.Proposed{
			ID:       uuid.New(),
			Type:     "thing.happened.v1",
			Data:     fmt.Appendf(nil, "{\"n\":%d}", i),
			Metadata: []byte(`{"actor":"test"}`),
		}
	}
	return list
}

func put(
	t *testing.T, store eventstore.Store, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) eventstore.Appended {
	t.Helper()
	appended := must.Get(store.Append(t.Context(), stream, expected, events))(t)
	return appended
}

func TestEmbedded_contract(t *testing.T) {
	t.Parallel()
	storetest.Run(t, open(t, vfs.NewMem()).Store())
}

// An acknowledged append survives a loss of power that takes everything that was not synced.
func TestAppend_survivesPowerLoss(t *testing.T) {
	t.Parallel()
	files := vfs.NewCrashableMem()
	store := open(t, files).Store()
	for revision := range eventstore.Revision(20) {
		put(t, store, "thing-1", revision-1, proposed(1))
		left := files.CrashClone(vfs.CrashCloneCfg{})
		n := must.Get(node.Open(node.Config{Dir: "store", FS: left}))(t)
		last := eventstore.NoStream
		for event, err := range n.Store().Read(t.Context(), "thing-1", 0) {
			must.OK(t, err)
			last = event.Revision
		}
		must.Equal(t, last, revision, "the stream ends at … was acknowledged")
		must.OK(t, n.Close())
	}
}

func TestClose_endsSubscriptions(t *testing.T) {
	t.Parallel()
	n := open(t, vfs.NewMem())
	store := n.Store()
	put(t, store, "thing-1", eventstore.NoStream, proposed(1))
	var ended error
	for message, err := range store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
		if message.CaughtUp {
			must.OK(t, n.Close())
		}
		ended = err
	}
	assert.Is(t, ended, eventstore.ErrUnavailable, "subscription")
	assert.Is(t, assert.Err(store.Append(t.Context(), "thing-1", 0, proposed(1))), eventstore.ErrUnavailable, "append")
	for _, err := range store.Read(t.Context(), "thing-1", 0) {
		assert.Is(t, err, eventstore.ErrUnavailable, "read")
	}
	assert.Is(t, assert.Err(store.Head(t.Context())), eventstore.ErrUnavailable, "head")
}

// A busy reader delays no other call, Close included, and then gets an error.
func TestRead_pages(t *testing.T) {
	t.Parallel()
	n := open(t, vfs.NewMem())
	store := n.Store()
	const events = 1300 // more than two pages
	put(t, store, "thing-1", eventstore.NoStream, proposed(events))
	read := 0
	for event, err := range store.Read(t.Context(), "thing-1", 0) {
		must.OK(t, err)
		must.Equal(t, event.Revision, eventstore.Revision(read), "revision … want %d", read)
		read++
	}
	must.Equal(t, read, events, "events")
	var ended error
	for event, err := range store.Read(t.Context(), "thing-1", 0) {
		if err == nil && event.Revision == 0 {
			must.OK(t, n.Close())
		}
		ended = err
	}
	assert.Is(t, ended, eventstore.ErrUnavailable, "read")
}

// A subscriber whom nothing concerns learns how far it has come: on the way, when it has caught up, and later.
func TestSubscribe_checkpoints(t *testing.T) {
	t.Parallel()
	store := open(t, vfs.NewMem()).Store()
	const events = 5000 // more than may pass without a checkpoint
	first := put(t, store, "other-1", eventstore.NoStream, proposed(events))
	var second eventstore.Appended
	var checkpoints []eventstore.Position
	for message, err := range store.Subscribe(t.Context(), eventstore.Start, eventstore.Categories("thing")) {
		switch {
		case err != nil:
			t.Fatal(err)
		case message.Event != nil:
			t.Fatalf("an event of %s", message.Event.Stream)
		case message.CaughtUp:
			second = put(t, store, "other-1", first.Revision, proposed(events))
		default:
			checkpoints = append(checkpoints, message.Position)
		}
		if len(checkpoints) == 3 {
			break
		}
	}
	assert.True(t, checkpoints[0] != first.Position && checkpoints[1] == first.Position &&
		first.Position.Before(checkpoints[2]) && !second.Position.Before(checkpoints[2]),
		"checkpoints %v; the events end at %s and %s", checkpoints, first.Position, second.Position)
}

// Fillers of a copy and the store's own events are passed over.
func TestSubscribe_passesOver(t *testing.T) {
	t.Parallel()
	store := open(t, vfs.NewMem()).Store()
	filler, system, event := proposed(1), proposed(1), proposed(1)
	filler[0].Type, system[0].Type = eventstore.Filler, "$statistics"
	put(t, store, "thing-1", eventstore.NoStream, filler)
	put(t, store, "$stats", eventstore.NoStream, system)
	put(t, store, "thing-1", 0, event)
	for message, err := range store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
		must.OK(t, err)
		if message.Event == nil {
			continue
		}
		assert.Equal(t, message.Event.ID, event[0].ID, "%s of %s came first", message.Event.Type, message.Event.Stream)
		break
	}
}

func TestAppend_refusesNames(t *testing.T) {
	t.Parallel()
	store := open(t, vfs.NewMem()).Store()
	for _, stream := range []string{"", "$all", "a\xff", string(make([]byte, 10_000))} {
		_, err := store.Append(t.Context(), stream, eventstore.NoStream, proposed(1))
		assert.True(t, err != nil, "stream %.20q was accepted", stream)
	}
	nameless := proposed(1)
	nameless[0].Type = ""
	assert.True(t, assert.Err(store.Append(t.Context(), "thing-1", eventstore.NoStream, nameless)) != nil,
		"an event without a type was accepted")
}

func TestAppend_fullDisk(t *testing.T) {
	t.Parallel()
	n, err := node.Open(node.Config{Dir: t.TempDir(), MinFreeBytes: math.MaxUint64})
	must.OK(t, err)
	for !n.Full() {
		runtime.Gosched()
	}
	_, err = n.Store().Append(t.Context(), "thing-1", eventstore.NoStream, proposed(1))
	assert.Is(t, err, eventstore.ErrFull, "error")
	must.OK(t, n.Close())
}

// Other processes find in the store what this one does, under the same name.
func TestEmbedded_sameOverNetwork(t *testing.T) {
	t.Parallel()
	n := open(t, vfs.NewMem())
	socket := filepath.Join(nodetest.SocketDir(t), "s")
	go func() { _ = n.ListenUnix(socket) }() // the node's end ends it
	remote := must.Get(esdb.OpenUnix(socket, slog.New(slog.DiscardHandler)))(t)
	t.Cleanup(func() { _ = remote.Close() })
	type view struct {
		Identity string
		Head     eventstore.Position
		Events   []eventstore.Recorded
	}
	look := func(store interface {
		eventstore.Store
		Identity(ctx context.Context) (string, error)
	}) (v view) {
		v.Identity = must.Get(store.Identity(t.Context()))(t)
		v.Head = must.Get(store.Head(t.Context()))(t)
		for event, err := range eventstore.Between(t.Context(), store, eventstore.Start, v.Head, eventstore.Filter{}) {
			must.OK(t, err)
			v.Events = append(v.Events, *event)
		}
		return v
	}
	assert.Equal(t, look(n.Store()).Identity, "", "an empty store")
	copied := proposed(3)
	copied[1].Metadata = []byte(`{"$originalCreatedDate":"2020-02-03T04:05:06.0000007Z"}`)
	copied[2].Metadata = nil
	put(t, n.Store(), "thing-1", eventstore.NoStream, copied)
	put(t, remote, "thing-1", 2, proposed(2))
	assert.Same(t, look(n.Store()), look(remote))
}

// A tombstone is in the stream that it ends, and no event of the program.
func TestTombstone(t *testing.T) {
	t.Parallel()
	store := open(t, vfs.NewMem()).Store()
	put(t, store, "thing-1", eventstore.NoStream, proposed(1))
	for range 2 {
		must.OK(t, store.Tombstone(t.Context(), "thing-1"))
	}
	put(t, store, "thing-2", eventstore.NoStream, proposed(1))
	var streams []string
	things, head := eventstore.Categories("thing"), must.Get(store.Head(t.Context()))(t)
	for event, err := range eventstore.Between(t.Context(), store, eventstore.Start, head, things) {
		must.OK(t, err)
		streams = append(streams, event.Stream+" "+event.Type)
	}
	assert.Same(t, streams, []string{"thing-1 thing.happened.v1", "thing-2 thing.happened.v1"})
	assert.Is(t, assert.Err(store.Append(t.Context(), "thing-1", 0, proposed(1))), eventstore.ErrStreamDeleted, "append")
}

// BenchmarkStore measures the calls of a program to the store in its process, on disk.
func BenchmarkStore(b *testing.B) {
	n := must.Get(node.Open(node.Config{Dir: b.TempDir()}))(b)
	b.Cleanup(func() {
		must.OK(b, n.Close())
	})
	storetest.Bench(b, n.Store())
}
