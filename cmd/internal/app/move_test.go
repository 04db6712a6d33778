package app_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// onDirectory works with the event store of a directory that no process uses.
func onDirectory(t *testing.T, dir string, work func(*esdb.Store)) {
	t.Helper()
	n, err := node.Open(node.Config{Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	socket, served := filepath.Join(filepath.Dir(dir), filepath.Base(dir)+".sock"), make(chan error, 1)
	go func() { served <- n.ListenUnix(socket) }()
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	work(store)
	if err := errors.Join(store.Close(), n.Close(), <-served); err != nil {
		t.Error(err)
	}
}

// userEvents lists the ids of what is in a store.
func userEvents(t *testing.T, store *esdb.Store) (ids []uuid.UUID, types []string) {
	t.Helper()
	for entry, err := range store.All(context.WithoutCancel(t.Context()), eventstore.Start) {
		if err != nil {
			t.Fatal(err)
		}
		ids, types = append(ids, entry.ID), append(types, entry.Type)
	}
	return ids, types
}

// A server is moved to a copy of its event store: it shows the same, does nothing again, and goes on.
func TestMovingToACopyOfTheEventStore(t *testing.T) {
	p := start(t, func(c *config.Config) {
		c.AutoDisableAfter, c.AutoDisableMinStreak = 2, 0
		c.DeliveryRetrySchedule = []time.Duration{10 * time.Millisecond, time.Second, time.Second, time.Second}
	})
	var healthy atomic.Bool
	_, arrived := p.subscribed(func(int) int {
		if healthy.Load() {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	page := p.call(http.MethodGet, "/events/destinations", nil, http.StatusOK)
	destination := "/events/destinations/" + page["items"].([]any)[0].(map[string]any)["id"].(string) //nolint:forcetypeassert,errcheck // by the interface
	status := func() any { return p.call(http.MethodGet, destination, nil, http.StatusOK)["status"] }

	// Two attempts fail, and the destination is disabled; its owner enables it, and a later one succeeds.
	p.publish()
	p.await(arrived)
	failed := p.await(arrived)
	p.eventually("it is auto-disabled", func() bool { return status() == "auto_disabled" })
	healthy.Store(true)
	p.call(http.MethodPatch, destination, map[string]any{"status": "enabled"}, http.StatusOK)
	id := failed.header.Get("webhook-id")
	before := p.settled(id, "succeeded")
	for len(arrived) > 0 {
		<-arrived
	}
	p.close()

	dir, old := filepath.Join(p.cfg.DataDir, "eventstore"), filepath.Join(p.cfg.DataDir, "old")
	if err := os.Rename(dir, old); err != nil {
		t.Fatal(err)
	}
	var copied []uuid.UUID
	onDirectory(t, old, func(source *esdb.Store) {
		onDirectory(t, dir, func(target *esdb.Store) {
			// So that no position is what it was.
			_, err := target.Append(t.Context(), "$padding-1", eventstore.NoStream, []eventstore.Proposed{{ID: uuid.New(), Type: "$x", Data: []byte(`{}`)}})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := copying.Copy(t.Context(), source, target, copying.Options{}); err != nil {
				t.Fatal(err)
			}
			copied, _ = userEvents(t, target)
		})
	})

	p.open()
	after := p.settled(id, "succeeded")
	if want, got := len(before["attempts"].([]any)), len(after["attempts"].([]any)); got != want { //nolint:forcetypeassert,errcheck // by the interface
		t.Errorf("%d attempts, want %d", got, want)
	}
	if got := status(); got != "enabled" {
		t.Errorf("the destination is %v", got)
	}
	p.publish()
	next := p.await(arrived)
	if next.header.Get("webhook-id") == id {
		t.Error("the old delivery was sent again")
	}
	p.settled(next.header.Get("webhook-id"), "succeeded")
	p.close()
	onDirectory(t, dir, func(store *esdb.Store) {
		ids, types := userEvents(t, store)
		want := []string{"publication.event-published.v1", "dispatch.deliveries-scheduled.v1", "delivery.attempted.v1"}
		if !slices.Equal(ids[:len(copied)], copied) || !slices.Equal(types[len(copied):], want) {
			t.Errorf("new in the copy: %v, want %v", types[len(copied):], want)
		}
	})
	select {
	case again := <-arrived:
		t.Errorf("one more webhook: %s", again.header.Get("webhook-id"))
	default:
	}
}
