//go:build nightly

package app_test

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/publication"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Sixteen listeners of one organization, as many as it may have, ask again at once whenever the server is killed. It
// comes up each time and never ends by itself, which child.run reports. CARILLON_TORTURE_KILLS=300 takes half an hour.
var listeners = load{
	on:     layout{servers: 1},
	faults: []fault{serverKilled},
	least:  3,
	begin: func(c *cluster) run {
		const count = 16
		id, _ := c.subscribed("listener", "https://listen.invalid/stream/"+strings.Repeat("Tok3n", 8), "news.*")
		stream := c.apis[0] + destinations + id + "/listen"
		ctx, cancel := context.WithCancel(c.Context())
		opened := make(chan int)
		var all sync.WaitGroup
		for n := range count {
			all.Go(func() {
				for ctx.Err() == nil {
					if read(ctx, stream, c.key, func() { opened <- n }) != nil {
						time.Sleep(50 * time.Millisecond) // a restart takes seconds
					}
				}
			})
		}
		connected := func(int) {
			seen := map[int]bool{}
			for late := time.After(2 * time.Minute); len(seen) < count; {
				select {
				case n := <-opened:
					seen[n] = true
				case <-late:
					c.Fatalf("%d of %d listeners are connected", len(seen), count)
				}
			}
		}
		connected(0)
		return run{
			holds: connected,
			ends: func() {
				cancel()
				go func() {
					for range opened { //nolint:revive // those that are about to open
					}
				}()
				all.Wait()
				close(opened)
			},
		}
	},
}

// read asks for a stream, and reads it until it ends.
func read(ctx context.Context, url, key string, opened func()) error {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	var client http.Client
	answer, err := client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Body.Close() }()
	if answer.StatusCode != http.StatusOK {
		return errors.New(answer.Status)
	}
	opened()
	_, err = io.Copy(io.Discard, answer.Body)
	return err
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
			holds: func(int) { sending.Wait() },
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

// dispatches counts published events, their dispatches, and those that were dispatched again.
type dispatches struct{ published, dispatched, again int }

// dispatches follows the event store.
func (c *cluster) dispatches() func() dispatches {
	c.Helper()
	store, err := esdb.Open(c.store, slog.New(slog.DiscardHandler))
	if err != nil {
		c.Fatal(err)
	}
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
