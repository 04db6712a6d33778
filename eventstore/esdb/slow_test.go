package esdb_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
)

// A store that nobody serves is told as such soon, and a server that is only slow is waited for.
func TestASlowServerIsWaitedForAndAMissingOneIsNot(t *testing.T) {
	t.Parallel()
	dir := nodetest.SocketDir(t)
	server, between := filepath.Join(dir, "s"), filepath.Join(dir, "between")
	store, err := esdb.OpenUnix(between, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })

	_, err = store.Head(t.Context())
	if !errors.Is(err, eventstore.ErrUnavailable) || !strings.Contains(err.Error(), "no server in") {
		t.Errorf("error = %v, want unavailable with no server", err)
	}

	t.Cleanup(nodetest.Serve(t, t.TempDir(), server))
	stall := make(chan struct{})
	relay(t, between, server, stall, 0)
	appended := make(chan error, 1)
	go func() {
		proposed := eventstore.Proposed{ID: uuid.New(), Type: "counter.counted.v1", Data: []byte(`{}`)}
		_, err := store.Append(t.Context(), eventstore.StreamName("counter", uuid.New()), eventstore.NoStream, []eventstore.Proposed{proposed})
		appended <- err
	}()
	select {
	case err := <-appended:
		t.Fatalf("an answer, %v, from a server that gives none", err)
	case <-time.After(4 * time.Second): // longer than a missing server is waited for
	}
	// Whoever waits less than the server needs hears that it was the own deadline, of calls and of streams.
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var readErr error
	for _, readErr = range store.Read(hurried, eventstore.StreamName("counter", uuid.New()), 0) {
		break
	}
	_, headErr := store.Head(hurried)
	for what, err := range map[string]error{"read": readErr, "head": headErr} {
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, eventstore.ErrUnavailable) {
			t.Errorf("%s: error = %v, want unavailable by the own deadline", what, err)
		}
	}
	close(stall)
	if err := <-appended; err != nil {
		t.Error(err)
	}
}

// relay passes bytes on from one socket to another, but the answers only after stall is closed. The first connections it
// breaks.
func relay(t *testing.T, from, to string, stall <-chan struct{}, breaks int) {
	t.Helper()
	listener, err := net.Listen("unix", from)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for ; ; breaks-- {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			if breaks > 0 {
				_ = client.Close()
				continue
			}
			server, err := net.Dial("unix", to)
			if err != nil {
				_ = client.Close()
				continue
			}
			go func() { _, _ = io.Copy(server, client); _ = server.Close() }()
			go func() { <-stall; _, _ = io.Copy(client, server); _ = client.Close() }()
		}
	}()
}

// TestServerThatBreaksConnectionsIsThere: one that takes connections and breaks them, as while it starts, is waited for.
func TestServerThatBreaksConnectionsIsThere(t *testing.T) {
	t.Parallel()
	dir := nodetest.SocketDir(t)
	server, between := filepath.Join(dir, "s"), filepath.Join(dir, "between")
	t.Cleanup(nodetest.Serve(t, t.TempDir(), server))
	passing := make(chan struct{})
	close(passing)
	relay(t, between, server, passing, 40) // by ten a second: longer than a missing server is waited for
	store, err := esdb.OpenUnix(between, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	if _, err := store.Head(t.Context()); err != nil {
		t.Error(err)
	}
}
