//go:build nightly

package app_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"strconv"
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

// load is what a cluster does while it suffers, and what must hold of it.
type load struct {
	on     layout
	faults []fault // in turn
	least  int     // faults, if CARILLON_TORTURE_KILLS asks for no other number. 0 means it runs only if asked for, alone
	most   int     // however many are asked for. 0 means any number
	begin  func(c *cluster) run
}

// run is a load that has begun.
type run struct {
	moment func(i int)    // begins the i-th operation, and returns at the moment of the i-th fault. Optional
	holds  func(s struck) // expects what must hold after a fault. Optional
	ends   func()         // expects what must hold at last. Optional
}

// struck is a fault that is over.
type struck struct {
	fault
	i            int // from 0
	began, ended time.Time
}

// A server is killed, stopped or cut off while something goes on that takes several steps: each comes to its end, once.
func TestTorture(t *testing.T) {
	for name, of := range map[string]load{
		"rotation of the master key":        rotation,
		"deletion of an organization":       deletion,
		"webhooks of the operators":         operatorWebhooks,
		"bursts that are dispatched":        bursts,
		"events of one":                     published(layout{servers: 1}, ofOne, 3),
		"events of two":                     published(layout{servers: 2}, ofTwo, 3),
		"events of two that are cut off":    published(layout{servers: 2, severable: true}, cuts(), 0),
		"events of two without connections": published(layout{servers: 2}, []fault{taken(20), taken(6)}, 0),
		"events of deliverers apart":        published(deliverersApart, ofDeliverer(), 0),
	} {
		t.Run(name, func(t *testing.T) {
			kills := tortureKills(of.least)
			switch {
			case kills == 0:
				t.Skip("make torture-delivery asks for it")
			case of.least > 0:
				t.Parallel()
			}
			if of.most > 0 {
				kills = min(kills, of.most)
			}
			c := newCluster(t, of.on)
			r := of.begin(c)
			for i := range kills {
				if r.moment != nil {
					r.moment(i)
				}
				s := struck{fault: of.faults[i%len(of.faults)], i: i, began: time.Now()}
				s.strike(c)
				s.ended = time.Now()
				if r.holds != nil {
					r.holds(s)
				}
			}
			if r.ends != nil {
				r.ends()
			}
			t.Logf("%d faults", kills)
		})
	}
}

func tortureKills(usual int) int {
	if n, err := strconv.Atoi(os.Getenv("CARILLON_TORTURE_KILLS")); err == nil {
		return n
	}
	return usual
}

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
