//go:build nightly

package bench

import (
	"fmt"
	"log/slog"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/must"
)

// beforehand opens the store of a server that has yet to start.
func (r *rig) beforehand(record func(store eventstore.Store, now time.Time)) {
	r.Helper()
	must.OK(r, os.MkdirAll(r.dir, 0o700))
	socket := nodetest.SocketDir(r.TB) + "/s"
	stop := nodetest.Serve(r.TB, r.dir+"/eventstore", socket)
	defer stop()
	store := must.Get(esdb.OpenUnix(socket, slog.New(slog.DiscardHandler)))(r)
	defer func() { _ = store.Close() }()
	record(store, time.Now().UTC().Truncate(time.Microsecond))
}

func record[S, E, C any](
	b testing.TB, store eventstore.Store, a eventstore.Aggregate[S, E, C], id uuid.UUID, events ...E,
) {
	proposed := make([]eventstore.Proposed, len(events))
	for i, event := range events {
		name, data, err := a.Codec.Encode(event)
		if err != nil {
			b.Error(err)
			return
		}
		proposed[i] = eventstore.Proposed{
			ID:       uuid.New(),
			Type:     name,
			Data:     data,
			Metadata: []byte("{}"),
		}
	}
	must.Get(store.Append(b.Context(), a.Stream(id), eventstore.NoStream, proposed))(b)
}

const timezone = "Europe/Rome"

// sourceOf is the id of the source of a page.
func sourceOf(address string) uuid.UUID { return source.ID(source.TypeSite, address, "", timezone) }

// register records sources, a hundred of which fill a feed of the organization. Visited ones are due in 100 hours.
func (r *rig) register(store eventstore.Store, addresses []string, perFeed int, visited bool, now time.Time) {
	for from := 0; from < len(addresses); from += perFeed {
		shown := []feed.Event{feed.Created{
			Organization: organization,
			Settings:     feed.Settings{Name: "Bench", Description: "Bench"},
			Enabled:      true,
			At:           now,
		}}
		for i, address := range addresses[from:min(from+perFeed, len(addresses))] {
			events := []source.Event{source.Registered{
				Type:     source.TypeSite,
				URL:      address,
				Timezone: timezone,
				At:       now,
			}}
			if visited {
				events = append(events, source.CollectionStarted{Number: 1, At: now},
					source.CollectionCompleted{
						Number:          1,
						IntervalSeconds: 3600,
						NextAt:          now.Add(100 * time.Hour),
						At:              now,
					})
			}
			record(r.TB, store, source.Aggregate, sourceOf(address), events...)
			if i < 100 {
				shown = append(shown, feed.SourceAttached{
					AssociationID: uuid.New(),
					SourceID:      sourceOf(address),
					SourceType:    source.TypeSite,
					At:            now,
				})
			}
		}
		record(r.TB, store, feed.Aggregate, uuid.New(), shown...)
	}
}

// BenchmarkKnown: a server that knows KNOWN happenings, of a thousand sources, a hundred of which fill a feed. How long
// it takes from its process to being ready, and its memory at rest.
func BenchmarkKnown(b *testing.B) {
	known := size("KNOWN", 1_000_000)
	r := prepare(b)
	r.beforehand(func(store eventstore.Store, now time.Time) { r.observe(store, known, now) })
	r.startServer()
	took := r.until("everything is processed", r.caughtUp)
	report(b, "taken-in/s", float64(known)/took.Seconds())
	report(b, "taking-in-MB", r.resident("VmHWM"))
	r.stop()
	r.process = r.serve()
	reportAtMost(b, "ready-ms", milliseconds(r.until("ready", r.ready)), 1000)
	report(b, "at-work-ms", milliseconds(r.until("all consumers run", r.caughtUp)))
	time.Sleep(5 * time.Second) // at rest
	report(b, "at-rest-MB", r.resident("VmRSS"))
	reportAtMost(b, "peak-MB", r.resident("VmHWM"), 300)
}

// observe records happenings, each of which one of a thousand sources shows.
func (r *rig) observe(store eventstore.Store, known int, now time.Time) {
	addresses := make([]string, 1000)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("https://127.0.0.1:1/%d", i)
	}
	r.register(store, addresses, len(addresses), true, now)
	next := make(chan int)
	var appending sync.WaitGroup
	for range 256 {
		appending.Go(func() {
			for i := range next {
				key := strconv.Itoa(i)
				record(r.TB, store, happening.Aggregate, happening.DeriveID(key), happening.Event(happening.Observed{
					SourceID: sourceOf(addresses[i%len(addresses)]),
					Key:      key,
					Source:   happening.Block{Type: "site"},
					At:       now,
					Details: happening.Details{
						Title: "Concert " + key, Description: "<p>" + strings.Repeat(description, 20) + "</p>",
						Instances: []happening.Instance{{ID: uuid.New(), Occurrences: []happening.Occurrence{
							{ID: uuid.New(), Start: now.Add(time.Duration(i%700-200) * time.Hour)},
						}}},
					},
				}))
			}
		})
	}
	for i := range known {
		next <- i
	}
	close(next)
	appending.Wait()
}
