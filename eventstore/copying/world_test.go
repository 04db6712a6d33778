package copying_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const patience = 10 * time.Minute

// world is a source and a target of a copy, each a separate node.
type world struct {
	*testing.T
	ctx            context.Context
	source, target *esdb.Store
	node           *node.Node // the source's
	targets        *node.Node
}

// kinds are the stores that copies are made between: the embedded node, and one that behaves as real servers do.
var kinds = map[string]func() *stricttest.Strict{
	"plain": func() *stricttest.Strict { return nil },
	"23.10": func() *stricttest.Strict { return &stricttest.Strict{} },
	"25.0":  func() *stricttest.Strict { return &stricttest.Strict{Later: true} },
}

// between runs a test for each way between two kinds of stores, and passes it the first one. With -short, two ways have
// each kind of goroutine in them.
func between(t *testing.T, test func(w *world, from string)) {
	t.Helper()
	ways := [][2]string{{"plain", "23.10"}, {"25.0", "plain"}, {"plain", "plain"}, {"23.10", "plain"}, {"plain", "25.0"}}
	if testing.Short() {
		ways = ways[:2]
	}
	for _, way := range ways {
		t.Run(way[0]+" to "+way[1], func(t *testing.T) { test(newWorldOf(t, kinds[way[0]](), kinds[way[1]]()), way[0]) })
	}
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldOf(t, nodetest.Strict(), nodetest.Strict())
}

func newWorldOf(t *testing.T, source, target *stricttest.Strict) *world {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	w := &world{T: t, ctx: ctx}
	w.source, w.node = open(t, source)
	w.target, w.targets = open(t, target)
	return w
}

// open runs a node in memory.
func open(t *testing.T, strict *stricttest.Strict) (*esdb.Store, *node.Node) {
	t.Helper()
	store, n := nodetest.Open(t, node.Config{Dir: "store", FS: vfs.NewMem(), Quirks: strict})
	if _, err := store.Head(t.Context()); err != nil { // it is served from now on
		t.Fatal(err)
	}
	return store, n
}

// onwards makes the target the source of a copy into a new node.
func (w *world) onwards(strict *stricttest.Strict) {
	w.Helper()
	w.source, w.node = w.target, w.targets
	w.target, w.targets = open(w.T, strict)
}

func entries(n int) []esdb.Entry {
	list := make([]esdb.Entry, n)
	for i := range list {
		list[i] = esdb.Entry{JSON: true, Recorded: eventstore.Recorded{
			ID:       uuid.New(),
			Type:     "thing.happened.v1",
			Data:     fmt.Appendf(nil, `{"n":%d}`, i),
			Metadata: []byte(`{"actor":"test"}`),
		}}
	}
	return list
}

func (w *world) put(store *esdb.Store, stream string, expected eventstore.Revision, list []esdb.Entry) {
	w.Helper()
	_, err := store.AppendEntries(w.ctx, stream, expected, list)
	must.True(w, err == nil, "append to %s: %v", stream, err)
}

// describe sets a stream's metadata in the source; revision is that of the last, or NoStream.
func (w *world) describe(stream string, revision eventstore.Revision, metadata string) {
	w.Helper()
	w.put(w.source, "$$"+stream, revision, []esdb.Entry{{
		Recorded: eventstore.Recorded{ID: uuid.New(), Type: "$metadata", Data: []byte(metadata)}, JSON: true,
	}})
}

func (w *world) copy(o copying.Options) copying.Result {
	w.Helper()
	result, err := copying.Copy(w.ctx, w.source, w.target, o)
	must.True(w, err == nil, "copy: %v after %+v", err, result)
	return result
}

func (w *world) scavenge(n *node.Node) {
	w.Helper()
	must.Get(n.Scavenge(w.ctx, nil))(w)
}

// sameStream compares what readers see of a stream, but for positions and a copy's additions to the metadata.
func (w *world) sameStream(stream string) int {
	w.Helper()
	read := func(store *esdb.Store) (list []eventstore.Recorded, failure error) {
		for recorded, err := range store.Read(w.ctx, stream, 0) {
			if err != nil {
				return nil, err
			}
			recorded.Position, recorded.Metadata = eventstore.Start, nil
			list = append(list, recorded)
		}
		return list, nil
	}
	want, wantErr := read(w.source)
	got, gotErr := read(w.target)
	assert.True(w, errors.Is(gotErr, wantErr), "%s: error %v, want %v", stream, gotErr, wantErr)
	assert.Alike(w, got, want, "%s", stream)
	return len(got)
}

func (w *world) length(store *esdb.Store, stream string) (n int) {
	w.Helper()
	for _, err := range store.Read(w.ctx, stream, 0) {
		must.OK(w, err)
		n++
	}
	return n
}
