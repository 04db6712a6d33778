package esdb_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

func TestMissingServer_reportedSoon(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		refused := func(context.Context, string) (net.Conn, error) { return nil, errors.New("connection refused") }
		store, err := esdb.OpenDialed("esdb://127.0.0.1:2113?tls=false", refused, slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		_, err = store.Head(t.Context())
		if !errors.Is(err, eventstore.ErrUnavailable) || !strings.Contains(err.Error(), "no server in") {
			t.Errorf("error = %v, want unavailable with no server", err)
		}
		if err := store.Close(); err != nil {
			t.Error(err)
		}
	})
}

// A server that is slow is waited for longer than a missing one. A caller that waits less than the server needs gets
// its own deadline as the error, of calls and of streams.
func TestSlowServer_waitedFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		through(t, listener, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) {
			if _, err := store.Head(t.Context()); err != nil {
				t.Fatal(err)
			}
			listener.stall = make(chan struct{})
			store.Reconnect()
			slow(t, store, listener.stall)
		})
	})
}

func slow(t *testing.T, store *esdb.Store, stall chan struct{}) {
	t.Helper()
	appended := make(chan error, 1)
	go func() {
		proposed := eventstore.Proposed{ID: uuid.New(), Type: "counter.counted.v1", Data: []byte(`{}`)}
		_, err := store.Append(t.Context(), "counter-1", eventstore.NoStream, []eventstore.Proposed{proposed})
		appended <- err
	}()
	hurried, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	var readErr error
	for _, readErr = range store.Read(hurried, "counter-2", 0) {
		break
	}
	_, headErr := store.Head(hurried)
	for what, err := range map[string]error{"read": readErr, "head": headErr} {
		if !errors.Is(err, context.DeadlineExceeded) || !errors.Is(err, eventstore.ErrUnavailable) {
			t.Errorf("%s: error = %v, want unavailable by the own deadline", what, err)
		}
	}
	time.Sleep(4 * time.Second) // by the clock of the bubble, and longer than a missing server is waited for
	select {
	case err := <-appended:
		t.Fatalf("an answer, %v, from a server that gives none", err)
	default:
	}
	close(stall)
	if err := <-appended; err != nil {
		t.Error(err)
	}
}

// A server that takes connections and breaks them, as while it starts, is waited for.
func TestConnectionsBroken_retried(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := newPipes()
		listener.breaks = 40 // by ten a second: longer than a missing server is waited for
		through(t, listener, nil, slog.New(slog.DiscardHandler), func(store *esdb.Store) {
			if _, err := store.Head(t.Context()); err != nil {
				t.Error(err)
			}
		})
	})
}
