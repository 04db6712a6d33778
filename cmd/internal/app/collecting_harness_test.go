package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/happening"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/dev"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/projections/pgtest"
)

// collecting is a fixture of servers that are killed, and their stores.
type collecting struct {
	*workload

	pool    *pgxpool.Pool
	store   eventstore.Store
	servers []*child
	client  *adminclient.Client
	key     string
	feed    string

	counting sync.Mutex
	changes  int // events of happenings
}

// newCollecting starts servers in processes of their own.
func newCollecting(t *testing.T, servers int) *collecting {
	t.Helper()
	dir, err := os.MkdirTemp("", "torture")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	database := pgtest.NewServer(t)
	data := filepath.Join(dir, "data")
	_, url := startNodeChild(t, dir)
	c := &collecting{pool: database.Pool()}
	for i := range servers {
		server, api, admin := startServerChild(t, data, url, database.URL(), "CHILD_COLLECTS=1")
		c.servers = append(c.servers, server)
		if i == 0 {
			c.workload = newWorkload(t, data, api, admin)
		}
	}
	store, err := esdb.Open(url, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	c.watch(store)
	return c
}

// watch follows what the servers record in an event store.
func (c *collecting) watch(store eventstore.Store) {
	c.Helper()
	c.store, c.client = store, adminclient.New(c.admin, c.token)
	var err error
	if c.key, err = dev.ReadKey(c.data); err != nil {
		c.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for m, err := range c.store.Subscribe(ctx, eventstore.Start, eventstore.Categories(happening.Aggregate.Category)) {
			if err == nil && m.Event != nil {
				c.counting.Lock()
				c.changes++
				c.counting.Unlock()
			}
		}
	}()
	c.Cleanup(func() { cancel(); <-counted })
}

// until waits. A visit that is killed costs its source a minute, and there are many kills.
func (c *collecting) until(what string, holds func() bool) {
	c.Helper()
	poll(c.T, 2*patience, what, holds)
}

func (c *collecting) attach(p *programme) {
	c.Helper()
	var feed struct {
		ID string `json:"id"`
	}
	c.until("a feed", func() bool {
		return c.post(c.api+"/feeds/events", c.key, map[string]any{"name": "Concerts", "description": "In town"},
			&feed) == nil
	})
	c.feed = feed.ID
	for _, address := range p.addresses() {
		c.until("a source that is attached", func() bool { // each step twice is once
			created, err := c.client.AddSource(c.Context(), adminclient.NewSource{
				Type:     p.sourceType(),
				URL:      address,
				Timezone: "Europe/Rome",
			})
			body := map[string]any{"sourceType": p.sourceType(), "sourceId": created.ID}
			return err == nil && c.post(c.api+"/feeds/events/"+c.feed+"/sources", c.key, body, nil) == nil
		})
	}
	c.until("all sources were collected from", func() bool { return c.completed() >= len(p.sites) })
}

// recordedOf are the events of some categories that there are by now.
func (c *collecting) recordedOf(categories ...string) iter.Seq[*eventstore.Recorded] {
	c.Helper()
	return func(yield func(*eventstore.Recorded) bool) {
		c.Helper()
		for m, err := range c.store.Subscribe(c.Context(), eventstore.Start, eventstore.Categories(categories...)) {
			if err != nil {
				c.Fatal(err)
			}
			if m.CaughtUp || m.Event != nil && !yield(m.Event) {
				return
			}
		}
	}
}

// completed counts the walks that went through.
func (c *collecting) completed() (n int) {
	c.Helper()
	for r := range c.recordedOf(source.Aggregate.Category) {
		switch r.Type {
		case "source.collection-completed.v1":
			n++
		case "source.collection-failed.v1":
			c.Errorf("a collection failed: %s", r.Data)
		}
	}
	return n
}

// caughtUp reports that every consumer is at the head.
func (c *collecting) caughtUp() bool {
	list, err := c.client.Projections(c.Context())
	for _, p := range list {
		if p.Behind == nil || *p.Behind > 0 {
			return false
		}
	}
	return err == nil && len(list) > 0
}

// walkAll turns to another version of the programme, and has it collected by servers that are killed meanwhile, evenly
// over the events of happenings that are to come.
func (c *collecting) walkAll(p *programme, version, kills, events int) {
	c.Helper()
	p.turnTo(version)
	before, walks := c.seen(), c.completed()
	c.collectAll()
	for i := range kills {
		after := before + events*(i+1)/(kills+1)
		c.until("the visits go on", func() bool { return c.seen() >= after })
		victim := c.servers[rand.IntN(len(c.servers))] //nolint:gosec // chance is the point
		victim.kill()
		// After a minute another server takes its turns. The clock of Postgres can't be faked, so it is that minute that is
		// left out. If there are two servers, the other one loses its turns as well.
		if _, err := c.pool.Exec(c.Context(), "UPDATE carillon.source_walks SET held_until = '-infinity'"); err != nil {
			c.Fatal(err)
		}
		victim.start()
	}
	c.until("all walks went through", func() bool { return c.completed() >= walks+len(p.sites) })
}

func (c *collecting) seen() int {
	c.counting.Lock()
	defer c.counting.Unlock()
	return c.changes
}

// items are those of the feed, nil if there are not n of them.
func (c *collecting) items(want int) (items []string) {
	c.Helper()
	for offset := 0; offset == 0 || offset < want; offset += 100 {
		var page struct {
			Data struct {
				Total int              `json:"total"`
				Items []map[string]any `json:"items"`
			} `json:"data"`
		}
		until := time.Now().AddDate(0, 0, 29).UTC().Format(time.RFC3339)
		request, err := http.NewRequestWithContext(c.Context(), http.MethodGet,
			fmt.Sprintf("%s/feeds/events/%s/items?limit=100&offset=%d&until=%s", c.api, c.feed, offset, until), http.NoBody)
		if err != nil {
			c.Fatal(err)
		}
		request.Header.Set("Authorization", "Bearer "+c.key)
		response, err := impatient.Do(request)
		if err != nil {
			return nil // killed just now
		}
		err = json.NewDecoder(response.Body).Decode(&page)
		_ = response.Body.Close()
		if err != nil || page.Data.Total != want {
			return nil
		}
		for _, item := range page.Data.Items {
			items = append(items, without(item, "id", "addedToFeedAt"))
		}
	}
	slices.Sort(items)
	return items
}

// recorded are the events of happenings and publications.
func (c *collecting) recorded() (happenings map[string]string, webhooks []string) {
	c.Helper()
	happenings = map[string]string{}
	for r := range c.recordedOf(happening.Aggregate.Category, publication.Aggregate.Category) {
		var data map[string]any
		if err := json.Unmarshal(r.Data, &data); err != nil {
			c.Fatal(err)
		}
		switch r.Category() {
		case happening.Aggregate.Category:
			happenings[r.StreamID().String()] += r.Type + " " + without(data, "at") + "\n"
		default:
			inner, _ := data["data"].(map[string]any)
			delete(inner, "id")
			delete(inner, "addedToFeedAt")
			webhooks = append(webhooks, without(data, "id", "at", "time", "source", "subject", "feedId", "organization"))
		}
	}
	slices.Sort(webhooks)
	return happenings, webhooks
}

// without is an object as text, without members that differ between any two runs.
func without(object map[string]any, members ...string) string {
	for _, name := range members {
		delete(object, name)
	}
	text, _ := json.Marshal(object)
	return strings.TrimSpace(string(text))
}

// collectAll asks for a walk of every source but the paused one of a development server.
func (c *collecting) collectAll() {
	c.Helper()
	list, err := c.client.Sources(c.Context(), adminclient.SourceFilter{})
	if err != nil {
		c.Fatal(err)
	}
	for _, s := range list {
		if s.URL == dev.ExampleSource {
			continue
		}
		if err := c.client.CollectSource(c.Context(), s.ID); err != nil {
			c.Fatal(err)
		}
	}
}
