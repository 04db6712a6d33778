package app_test

import (
	"context"
	"encoding/json"
	"fmt"
	"iter"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/publication"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/dev"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

// collecting is a cluster, or a server in this process, that collects.
type collecting struct {
	*cluster

	box    *inbox
	events eventstore.Store
	client *adminclient.Client
	feed   string

	counting sync.Mutex
	changes  int // events of happenings
}

// newCollecting makes a feed, an inbox for its events, and follows what the servers record in an event store.
func newCollecting(c *cluster, store eventstore.Store) *collecting {
	c.Helper()
	col := &collecting{
		cluster: c,
		box:     newInbox(c.installation),
		events:  store,
		client:  adminclient.New(c.admins[0], c.token),
	}
	var feed struct {
		ID string `json:"id"`
	}
	col.until("a feed is made", func() bool {
		body := map[string]any{"name": "Concerts", "description": "In town"}
		return c.did(http.MethodPost, c.apis[0]+"/feeds/events", body, &feed)
	})
	col.feed = feed.ID
	ctx, cancel := context.WithCancel(context.WithoutCancel(c.Context()))
	counted := make(chan struct{})
	go func() {
		defer close(counted)
		for m, err := range store.Subscribe(ctx, eventstore.Start, eventstore.Categories(happening.Aggregate.Category)) {
			if err == nil && m.Event != nil {
				col.counting.Lock()
				col.changes++
				col.counting.Unlock()
			}
		}
	}()
	c.Cleanup(func() { cancel(); <-counted })
	return col
}

// until waits. A visit that is killed costs its source a minute, and there are many kills.
func (c *collecting) until(what string, holds func() bool) {
	c.Helper()
	poll(c.T, 2*patience, what, holds)
}

// attach adds a source, and attaches it to the feed. Each step twice is once.
func (c *collecting) attach(source adminclient.NewSource) (id uuid.UUID) {
	c.Helper()
	c.until("a source is attached", func() bool {
		created, err := c.client.AddSource(c.Context(), source)
		id = created.ID
		body := map[string]any{"sourceType": source.Type, "sourceId": id}
		return err == nil && c.did(http.MethodPost, c.apis[0]+"/feeds/events/"+c.feed+"/sources", body, nil)
	})
	return id
}

// recordedOf are the events of some categories that there are by now.
func (c *collecting) recordedOf(categories ...string) iter.Seq[*eventstore.Recorded] {
	c.Helper()
	return func(yield func(*eventstore.Recorded) bool) {
		c.Helper()
		for m, err := range c.events.Subscribe(c.Context(), eventstore.Start, eventstore.Categories(categories...)) {
			must.OK(c, err)
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

func (c *collecting) seen() int {
	c.counting.Lock()
	defer c.counting.Unlock()
	return c.changes
}

// page is one of the feed's items; nil if there is no answer.
func (c *collecting) page(offset int) (items []map[string]any, total int) {
	c.Helper()
	var page struct {
		Total int              `json:"total"`
		Items []map[string]any `json:"items"`
	}
	until := time.Now().AddDate(0, 0, 29).UTC().Format(time.RFC3339)
	path := fmt.Sprintf("/feeds/events/%s/items?limit=100&offset=%d&until=%s", c.feed, offset, until)
	if !c.did(http.MethodGet, c.apis[0]+path, nil, &page) {
		return nil, 0 // killed just now
	}
	return page.Items, page.Total
}

// items are those of the feed, nil if there are not n of them.
func (c *collecting) items(want int) (items []string) {
	c.Helper()
	for offset := 0; offset == 0 || offset < want; offset += 100 {
		page, total := c.page(offset)
		if total != want {
			return nil
		}
		for _, item := range page {
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
		must.OK(c, json.Unmarshal(r.Data, &data))
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
	list := must.Get(c.client.Sources(c.Context(), adminclient.SourceFilter{}))(c)
	for _, s := range list {
		if s.URL == dev.ExampleSource {
			continue
		}
		must.OK(c, c.client.CollectSource(c.Context(), s.ID))
	}
}
