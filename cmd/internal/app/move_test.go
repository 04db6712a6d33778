//go:build nightly

package app_test

import (
	"context"
	"errors"
	"hash/fnv"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// onDirectory works with the event store of a directory that no process uses.
func onDirectory(t testing.TB, dir string, work func(*esdb.Store)) {
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

// userEvents lists the ids of the events in a store.
func userEvents(t testing.TB, store *esdb.Store) (ids []uuid.UUID, types []string) {
	t.Helper()
	for entry, err := range store.All(context.WithoutCancel(t.Context()), eventstore.Start) {
		if err != nil {
			t.Fatal(err)
		}
		ids, types = append(ids, entry.ID), append(types, entry.Type)
	}
	return ids, types
}

func (p *process) storeDir() string { return filepath.Join(p.cfg.DataDir, "eventstore") }

// move puts a copy in the place of the event store, while no process runs, and lists what is in it.
func (p *process) move() (copied []uuid.UUID) {
	p.Helper()
	old := filepath.Join(p.cfg.DataDir, "old")
	if err := os.Rename(p.storeDir(), old); err != nil {
		p.Fatal(err)
	}
	onDirectory(p.TB, old, func(source *esdb.Store) {
		onDirectory(p.TB, p.storeDir(), func(target *esdb.Store) {
			// So that no position is what it was.
			_, err := target.Append(p.Context(), "$padding-1", eventstore.NoStream, []eventstore.Proposed{{
				ID:   uuid.New(),
				Type: "$x",
				Data: []byte(`{}`),
			}})
			if err != nil {
				p.Fatal(err)
			}
			if _, err := copying.Copy(p.Context(), source, target, copying.Options{}); err != nil {
				p.Fatal(err)
			}
			copied, _ = userEvents(p.TB, target)
		})
	})
	return copied
}

// The read model of deliveries takes its time to be built for the copy. The old one serves meanwhile, new events are
// sent, and retries wait until the new one is complete. Succeeded deliveries are not sent again.
func TestMove_nothingClaimedBeforeRebuild(t *testing.T) {
	const succeeded, retried, retryWait = 40, 5, 500 * time.Millisecond
	p := start(t, func(c *config.Config) {
		c.DeliveryRetrySchedule = slices.Repeat([]time.Duration{retryWait}, 50)
	})
	var down atomic.Bool
	_, arrived := p.subscribed(func(int) int {
		if down.Load() {
			return http.StatusServiceUnavailable
		}
		return http.StatusOK
	})
	send := func(n int) map[string]bool {
		ids := map[string]bool{}
		for range n {
			p.publish()
		}
		for len(ids) < n {
			ids[p.await(arrived).header.Get("webhook-id")] = true
		}
		return ids
	}
	before := send(succeeded)
	for id := range before {
		p.settled(id, "succeeded")
	}
	down.Store(true)
	waiting := send(retried)
	p.close()
	p.move()
	for len(arrived) > 0 {
		<-arrived
	}
	down.Store(false)

	held := p.holdRebuild("deliveries")
	p.open()
	for id := range before {
		p.settled(id, "succeeded")
	}
	sent := map[string]bool{}
	take := func(r received) (id string) {
		id = r.header.Get("webhook-id")
		if before[id] || sent[id] {
			t.Errorf("%s came again", id)
		}
		sent[id] = true
		return id
	}
	comes := func() bool {
		select {
		case r := <-arrived:
			take(r)
			return true
		case <-time.After(4 * retryWait):
			return false
		}
	}
	// Events from before the dispatcher's start are left to be claimed; later ones are sent at once.
	published := 0
	p.eventually("events published meanwhile are sent", func() bool {
		p.publish()
		published++
		return comes()
	})
	for comes() { // on a busy machine more of them are on their way
	}
	for id := range waiting {
		if sent[id] {
			t.Errorf("%s was claimed while the read model is built", id)
		}
	}
	held()
	for len(sent) < published+retried {
		delete(waiting, take(p.await(arrived)))
	}
	if len(waiting) > 0 {
		t.Errorf("retries that did not come: %v", waiting)
	}
	for id := range sent {
		p.settled(id, "succeeded")
	}
	comes() // nothing does
}

// holdRebuild keeps a read model from being rebuilt, like another process that is rebuilding it.
func (p *process) holdRebuild(name string) (release func()) {
	p.Helper()
	conn, err := pgx.Connect(p.Context(), p.cfg.DatabaseURL.Reveal())
	if err != nil {
		p.Fatal(err)
	}
	h := fnv.New64a()
	_, _ = h.Write([]byte("carillon consumer rebuild of " + name))
	if _, err := conn.Exec(p.Context(), "SELECT pg_advisory_lock($1)",
		int64(h.Sum64())); err != nil { //nolint:gosec // any 64 bits will do
		p.Fatal(err)
	}
	release = sync.OnceFunc(func() { _ = conn.Close(context.WithoutCancel(p.Context())) })
	p.Cleanup(release)
	return release
}

// A server is moved to a copy of its event store: it shows the same, does nothing again, and goes on.
func TestMovingToACopyOfTheEventStore(t *testing.T) {
	p := start(t, func(c *config.Config) {
		c.AutoDisableAfter, c.AutoDisableMinStreak = 2, 0
		c.DeliveryRetrySchedule = append([]time.Duration{10 * time.Millisecond},
			slices.Repeat([]time.Duration{time.Second}, 50)...)
	})
	var healthy atomic.Bool
	_, arrived := p.subscribed(func(int) int {
		if healthy.Load() {
			return http.StatusOK
		}
		return http.StatusServiceUnavailable
	})
	page := p.call(http.MethodGet, "/events/destinations", nil, http.StatusOK)
	destination := "/events/destinations/" +
		page["items"].([]any)[0].(map[string]any)["id"].(string) //nolint:forcetypeassert,errcheck // by the interface
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
	copied := p.move()
	p.open()
	after := p.settled(id, "succeeded")
	if want, got := len(before["attempts"].([]any)),
		len(after["attempts"].([]any)); got != want { //nolint:forcetypeassert,errcheck // by the interface
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
	onDirectory(t, p.storeDir(), func(store *esdb.Store) {
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
