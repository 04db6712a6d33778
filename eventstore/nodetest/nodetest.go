// Package nodetest starts real embedded nodes for tests.
package nodetest

import (
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// Start runs a node on an empty directory until the test ends, and connects a store to it through the official client.
func Start(t testing.TB) *esdb.Store {
	t.Helper()
	socket := filepath.Join(SocketDir(t), "s")
	stop := Serve(t, t.TempDir(), socket)
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := store.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
		stop()
	})
	return store
}

// Serve runs a node on a directory, which may hold data, and a socket. stop ends it; it may be called twice.
func Serve(t testing.TB, dir, socket string) (stop func()) {
	t.Helper()
	n, err := node.Open(node.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	return sync.OnceFunc(func() {
		if err := n.Close(); err != nil {
			t.Errorf("close node: %v", err)
		}
		if err := <-served; err != nil {
			t.Errorf("serve: %v", err)
		}
	})
}

// SocketDir is a directory for sockets: the test's own may have too long a name for one.
func SocketDir(t testing.TB) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "node")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(dir); err != nil {
			t.Error(err)
		}
	})
	return dir
}
