package items_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/projecttest"
	"carillon/query"
)

var (
	org, reader = uuid.New(), uuid.New()
	now         = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	block       = happening.Block{Type: "site", URL: "https://example.org/events"}
)

const day = 24 * time.Hour

// fixture is a feed with a source.
type fixture struct {
	*projecttest.Log
	*query.Queries
	t            testing.TB
	feed, source uuid.UUID
}

func open(t testing.TB) fixture {
	t.Helper()
	log := projecttest.New(t, feeds.ReadModel, items.ReadModel)
	f := fixture{
		Log:     log,
		Queries: &query.Queries{Pool: log.Database},
		t:       t,
		feed:    uuid.New(),
		source:  uuid.New(),
	}
	f.onFeed(f.feed, created(feed.Settings{Name: "F", Description: "D"}), attached(f.source),
		feed.Shared{With: reader, At: now})
	return f
}

func attached(source uuid.UUID) feed.SourceAttached {
	return feed.SourceAttached{
		AssociationID: uuid.New(),
		SourceID:      source,
		SourceType:    "site",
		At:            now,
	}
}

func created(s feed.Settings) feed.Created {
	return feed.Created{
		Organization: org,
		Settings:     s,
		Enabled:      true,
		At:           now,
	}
}

func observed(source uuid.UUID, details happening.Details) happening.Observed {
	return happening.Observed{
		SourceID: source,
		Key:      "k",
		Details:  details,
		Source:   block,
		At:       now,
	}
}

func revised(source uuid.UUID, details happening.Details) happening.Revised {
	return happening.Revised{
		SourceID: source,
		Details:  details,
		Source:   block,
		At:       now,
	}
}

func (f fixture) onFeed(id uuid.UUID, events ...feed.Event) {
	projecttest.Stream(f.Log, feed.Aggregate, id, now)(events...)
}

func (f fixture) onHappening(id uuid.UUID, events ...happening.Event) {
	projecttest.Stream(f.Log, happening.Aggregate, id, now)(events...)
}

func (f fixture) onItem(id uuid.UUID, events ...item.Event) {
	projecttest.Stream(f.Log, item.Aggregate, id, now)(events...)
}

// add observes a happening and adds it to the feed.
func (f fixture) add(id uuid.UUID, details happening.Details) uuid.UUID {
	f.onHappening(id, observed(f.source, details))
	return f.addTo(f.feed, id, now)
}

func (f fixture) addTo(feedID, id uuid.UUID, at time.Time) uuid.UUID {
	itemID := item.ID(feedID, id)
	f.onItem(itemID, item.Added{
		FeedID:      feedID,
		HappeningID: id,
		SourceID:    f.source,
		At:          at,
	})
	return itemID
}

// on takes place for two hours at each of some times, each a separate instance.
func on(title string, starts ...time.Duration) happening.Details {
	d := happening.Details{Title: title}
	for i, start := range starts {
		d.Instances = append(d.Instances, instance(happening.Scheduled, fmt.Sprintf("%s %d", title, i), start))
	}
	return d
}

func instance(status happening.Status, key string, starts ...time.Duration) happening.Instance {
	made := happening.Instance{ID: happening.DeriveInstanceID(key, ""), Status: status}
	for i, start := range starts {
		end := now.Add(start + 2*time.Hour)
		made.Occurrences = append(made.Occurrences, happening.Occurrence{
			ID:     happening.DeriveOccurrenceID(made.ID, i),
			Start:  now.Add(start),
			End:    &end,
			Status: status,
		})
	}
	return made
}

// usual is the default range of a list.
func usual() query.ItemsQuery {
	return query.ItemsQuery{
		Since:   now,
		Until:   now.Add(30 * day),
		OrderBy: query.OrderByOccurrence,
		Limit:   20,
		Now:     now,
	}
}

// shownItem holds the columns of an item that the tests read.
type shownItem struct {
	ID         uuid.UUID
	EventID    uuid.UUID
	Title      string
	Occurrence struct {
		NextOccurrence     *shownOccurrence
		OccurrencesInRange []shownOccurrence
		Total              int `json:"totalOccurrences"`
		Upcoming           int `json:"upcomingOccurrences"`
	}
	Source *happening.Block
}

type shownOccurrence struct {
	ID, InstanceID uuid.UUID
	StartDateTime  time.Time
	EndDateTime    *time.Time
	Status         string
}

func (f fixture) list(in query.ItemsQuery) (list []shownItem, total int) {
	f.t.Helper()
	page := must.Get(f.Items(f.t.Context(), org, f.feed, in))(f.t)
	if err := json.Unmarshal(page.Items, &list); err != nil {
		f.t.Fatalf("%v: %s", err, page.Items)
	}
	assert.Equal(f.t, page.Count, len(list), "count … for items")
	return list, page.Total
}

func (f fixture) expect(in query.ItemsQuery, total int, titles ...string) {
	f.t.Helper()
	list, got := f.list(in)
	var shown []string
	for _, i := range list {
		shown = append(shown, i.Title)
	}
	if diff := cmp.Diff(titles, shown); diff != "" || got != total {
		f.t.Errorf("total %d, want %d; items (-want +got):\n%s", got, total, diff)
	}
}

func TestReadersOfItems(t *testing.T) {
	t.Parallel()
	f := open(t)
	id := f.add(uuid.New(), on("Concert", day))
	elsewhere := uuid.New()
	f.onFeed(elsewhere, created(feed.Settings{Name: "F2", Description: "D"}))
	f.Project()
	for _, who := range []uuid.UUID{org, reader} {
		assert.Equal(t, must.Get(f.Items(t.Context(), who, f.feed, usual()))(t).Count, 1, "count")
		must.Get(f.Item(t.Context(), who, f.feed, id, false, now))(t)
	}
	if page, err := f.Items(t.Context(), org, elsewhere, usual()); err != nil || string(page.Items) != "[]" ||
		page.Total != 0 {
		t.Errorf("an empty feed: %s, %v", page.Items, err)
	}
	for name, tt := range map[string]struct{ who, feed, item uuid.UUID }{
		"another organization": {uuid.New(), f.feed, id}, "unknown feed": {org, uuid.New(), id},
		"item of another feed": {org, elsewhere, id}, "unknown item": {org, f.feed, uuid.New()},
	} {
		assert.Is(t, assert.Err(f.Item(t.Context(), tt.who, tt.feed, tt.item, false, now)), query.ErrNotFound,
			"%s: item", name)
		_, err := f.Items(t.Context(), tt.who, tt.feed, usual())
		assert.True(t, (tt.feed == elsewhere || tt.item != id) == (err == nil), "%s: items: %v", name, err)
	}
	assert.True(t, (query.ItemsPage{Count: 20, Total: 41}).HasMore(20) &&
		!(query.ItemsPage{Count: 20, Total: 40}).HasMore(20), "hasMore is wrong")
}
