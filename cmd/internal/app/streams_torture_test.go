//go:build nightly

package app_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/must"
)

// Two processes share the work. In the middle of bursts the one that dispatches is killed, or loses its session, or is
// stopped until the other one has taken over: each event that was taken is dispatched once, and arrives.
var bursts = load{
	on:     layout{servers: 2},
	faults: []fault{holderKilled, sessionsEnded, holderStopped},
	least:  4,
	most:   4,
	begin: func(c *cluster) run {
		const each = 2000
		box, made := newInbox(c.installation), c.dispatches()
		sent, sending := 0, sync.WaitGroup{}
		return run{
			moment: func(int) {
				body := burst(organization, each)
				sent += each
				sending.Go(func() { // until one has taken all of it; nothing is taken twice
					for try := 0; !send(c.T, c.admins[try%2], c.token, body) && c.Context().Err() == nil; try++ {
						time.Sleep(100 * time.Millisecond)
					}
				})
				c.eventually("the burst has begun", func() bool { return made().dispatched > sent-each*3/4 })
			},
			holds: func(struck) { sending.Wait() },
			ends: func() {
				c.eventually("all is dispatched", func() bool { return made().dispatched >= sent })
				c.eventually("all has arrived", func() bool { events, _ := box.arrived(); return events >= sent })
				box.eachOnce()
				events, _ := box.arrived()
				if got := made(); got != (dispatches{published: sent, dispatched: sent}) || events != sent {
					c.Errorf("of %d, %d arrived: %+v", sent, events, got)
				}
			},
		}
	},
}

// burst is the NDJSON of n events of an organization.
func burst(of uuid.UUID, events int) []byte {
	var body bytes.Buffer
	for range events {
		body.WriteString(event(of) + "\n")
	}
	return body.Bytes()
}

// send posts NDJSON to an admin listener, and reports whether all of it was taken.
func send(t *testing.T, admin, token string, body []byte) bool {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, admin+"/admin/events", bytes.NewReader(body))
	if err != nil {
		t.Error(err)
		return false
	}
	request.Header.Set("Authorization", "Bearer "+token)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return false
	}
	defer func() { _ = response.Body.Close() }()
	_, err = io.Copy(io.Discard, response.Body)
	return err == nil && response.StatusCode == http.StatusOK
}

// dispatches counts published events, their dispatches, and those that were dispatched again.
type dispatches struct{ published, dispatched, again int }

// dispatches follows the event store.
func (c *cluster) dispatches() func() dispatches {
	c.Helper()
	store := must.Get(esdb.Open(c.store, slog.New(slog.DiscardHandler)))(c)
	c.Cleanup(func() { _ = store.Close() })
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	var (
		watching sync.WaitGroup
		mu       sync.Mutex
		made     dispatches
	)
	c.Cleanup(func() { cancel(); watching.Wait() })
	watching.Go(func() {
		seen := map[uuid.UUID]bool{}
		of := eventstore.Categories(publication.Aggregate.Category, dispatch.Aggregate.Category)
		for m := range eventstore.Follow(ctx, store, eventstore.Start, of, slog.New(slog.DiscardHandler)) {
			if m.Event == nil {
				continue
			}
			mu.Lock()
			switch id := m.Event.StreamID(); {
			case m.Event.Category() == publication.Aggregate.Category:
				made.published++
			case seen[id]:
				made.again++
			default:
				made.dispatched++
				seen[id] = true
			}
			mu.Unlock()
		}
	})
	return func() dispatches {
		mu.Lock()
		defer mu.Unlock()
		return made
	}
}
