// Package nodetest starts real embedded nodes for tests.
package nodetest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/storetest/must"
)

// Start runs a node in memory until the test ends, and connects a store to it.
func Start(t testing.TB) *esdb.Store {
	t.Helper()
	store, _ := Stoppable(t, slog.New(slog.DiscardHandler))
	return store
}

// StartStrict is Start for a node that is as unkind as a real server is.
func StartStrict(t testing.TB, strict *stricttest.Strict, log *slog.Logger) *esdb.Store {
	t.Helper()
	store, _ := start(t, log, strict)
	return store
}

// Stoppable is Start with a log, and with a way to take the node from its store before the test ends.
func Stoppable(t testing.TB, log *slog.Logger) (store *esdb.Store, stop func()) {
	t.Helper()
	return start(t, log, Strict())
}

func start(t testing.TB, log *slog.Logger, strict *stricttest.Strict) (store *esdb.Store, stop func()) {
	t.Helper()
	store, _, stop = open(t, node.Config{
		Dir:    "store",
		FS:     vfs.NewMem(),
		Logger: log,
		Quirks: strict,
	}, log)
	return store, stop
}

// Open runs a node that a test works with itself until the test ends, and connects a store to it.
func Open(t testing.TB, config node.Config) (*esdb.Store, *node.Node) {
	t.Helper()
	store, n, _ := open(t, config, cmp.Or(config.Logger, slog.New(slog.DiscardHandler)))
	return store, n
}

func open(t testing.TB, config node.Config, log *slog.Logger) (store *esdb.Store, n *node.Node, stop func()) {
	t.Helper()
	socket := filepath.Join(SocketDir(t), "s")
	n, stop = serve(t, config, socket)
	store = must.Get(esdb.OpenUnix(socket, log))(t)
	t.Cleanup(func() {
		must.OK(t, store.Close())
		stop()
	})
	return store, n, stop
}

// Serve runs a node on a directory, which may hold data, and a socket. stop ends it; it may be called twice.
func Serve(t testing.TB, dir, socket string) (stop func()) {
	t.Helper()
	_, stop = serve(t, node.Config{Dir: dir, Quirks: Strict()}, socket)
	return stop
}

// Listen runs a node on a port of this machine until the test ends, and returns its address.
func Listen(t testing.TB, config node.Config) (address string) {
	t.Helper()
	n := must.Get(node.Open(config))(t)
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	t.Cleanup(func() {
		must.OK(t, errors.Join(n.Close(), <-served))
	})
	return listener.Addr().String()
}

// Strict returns quirks that make a node as strict as the real server that CARILLON_TEST_STRICT names: 23.10 or
// 25.0, and as costly if CARILLON_TEST_COSTLY is set. It is nil else.
func Strict() *stricttest.Strict {
	version := os.Getenv("CARILLON_TEST_STRICT")
	if version == "" {
		return nil
	}
	return &stricttest.Strict{Later: version >= "24.10", Costly: os.Getenv("CARILLON_TEST_COSTLY") != ""}
}

func serve(t testing.TB, config node.Config, socket string) (*node.Node, func()) {
	t.Helper()
	n := must.Get(node.Open(config))(t)
	served := make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	return n, sync.OnceFunc(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
		if err := <-served; err != nil && !errors.Is(err, net.ErrClosed) { // a short test is over before it serves
			t.Errorf("serve: %v", err)
		}
	})
}

// SocketDir is a directory for sockets: the test's own may have too long a name for one.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp("", "node"))(t)
	t.Cleanup(func() {
		must.OK(t, os.RemoveAll(dir))
	})
	return dir
}

// Log is a log that is written while it is read.
type Log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

// Write implements io.Writer.
func (l *Log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

// String returns the text written so far.
func (l *Log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// Replaceable is a store that becomes another one while it is in use, as when a server is restored from a backup.
type Replaceable struct {
	mu    sync.Mutex
	store *esdb.Store
	gone  chan struct{} // closed when the store is replaced
}

var _ eventstore.Store = (*Replaceable)(nil)

// NewReplaceable returns a store that is the given one at first.
func NewReplaceable(store *esdb.Store) *Replaceable {
	return &Replaceable{store: store, gone: make(chan struct{})}
}

// Replace puts another store in its place, and breaks all subscriptions.
func (r *Replaceable) Replace(store *esdb.Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.gone)
	r.store, r.gone = store, make(chan struct{})
}

func (r *Replaceable) present() (*esdb.Store, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store, r.gone
}

// Append implements eventstore.Store.
func (r *Replaceable) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	store, _ := r.present()
	return store.Append(ctx, stream, expected, events)
}

// Read implements eventstore.Store.
func (r *Replaceable) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	store, _ := r.present()
	return store.Read(ctx, stream, from)
}

// Head implements eventstore.Store.
func (r *Replaceable) Head(ctx context.Context) (eventstore.Position, error) {
	store, _ := r.present()
	return store.Head(ctx)
}

// Identity returns that of the present store.
func (r *Replaceable) Identity(ctx context.Context) (string, error) {
	store, _ := r.present()
	return store.Identity(ctx)
}

// Subscribe implements eventstore.Store.
func (r *Replaceable) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		store, gone := r.present()
		during, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-gone:
				cancel()
			case <-during.Done():
			}
		}()
		for message, err := range store.Subscribe(during, after, filter) {
			if err != nil && ctx.Err() == nil && during.Err() != nil {
				err = fmt.Errorf("%w: it was replaced", eventstore.ErrUnavailable)
			}
			if !yield(message, err) || err != nil {
				return
			}
		}
	}
}
