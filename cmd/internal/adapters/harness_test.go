package adapters_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
	"carillon/query"
)

const patience = 2 * time.Minute // on a busy machine

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// parts are an event store and a database, and some read models that run.
type parts struct {
	pool   *pgxpool.Pool
	store  *esdb.Store
	runner *projections.Runner
}

func startParts(tb testing.TB, models ...projections.ReadModel) *parts {
	tb.Helper()
	p := &parts{pool: apitest.Prepared.Pool(tb), store: nodetest.Start(tb)}
	p.runner = projecttest.Runner(tb, p.pool, p.store)
	p.runner.Linger = 5 * time.Millisecond // tests wait for each step
	for _, m := range models {
		run(tb, func(ctx context.Context) error { return p.runner.Project(ctx, m) })
	}
	return p
}

// world is everything between a source and the items of a feed, for real.
type world struct {
	*parts

	t        testing.TB
	commands *command.Commands
	queries  *query.Queries
	by       command.Caller
	stop     func()                // the monitor and the curation of feeds
	log      []eventstore.Recorded // events seen, see recorded
}

// open starts, with some collectors, the curation of feeds and the monitor.
func open(t testing.TB, collectors map[string]collect.Collector) *world {
	t.Helper()
	if t, is := t.(*testing.T); is {
		t.Parallel()
	}
	p := startParts(t, organizations.ReadModel, feeds.ReadModel, sources.ReadModel, items.ReadModel)
	types := must.Get(apitest.Types())(t)
	w := &world{parts: p, t: t, queries: &query.Queries{Pool: p.pool}}
	w.commands = &command.Commands{
		Store:   w.store,
		Now:     time.Now,
		Catalog: types,
		Walks:   w.queries,
	}
	org, err := w.commands.RegisterOrganization(t.Context(), command.Caller{Actor: "operator"},
		command.RegisterOrganization{Name: "Town hall"})
	w.await(org.Position, err, organizations.ReadModel.Name)
	w.by = command.Caller{Organization: org.ID, Actor: "key:test", RequestID: uuid.New()}
	w.stop = w.curateAndMonitor(collectors)
	return w
}

func (w *world) curateAndMonitor(collectors map[string]collect.Collector) (stop func()) {
	w.t.Helper()
	stopCuration, stopMonitor := w.curate(), w.monitor(w.store, collectors)
	return func() { stopMonitor(); stopCuration() }
}

func (w *world) curate() (stop func()) {
	w.t.Helper()
	log := slog.New(slog.DiscardHandler)
	return run(w.t, func(ctx context.Context) error {
		return w.runner.React(ctx, func(tables *projections.Tables) eventstore.ProcessManager {
			return adapters.NewFeedCuration(tables, w.store, w.commands, 0, log)
		})
	})
}

func (w *world) monitor(
	store eventstore.Store, collectors map[string]collect.Collector, with ...func(*visiting.Monitor),
) (stop func()) {
	w.t.Helper()
	return run(w.t, func(ctx context.Context) error {
		monitor := &visiting.Monitor{
			Store:      store,
			Now:        time.Now,
			Log:        slog.New(slog.DiscardHandler),
			Walks:      adapters.NewWalks(w.pool),
			Collectors: collectors,
			Poll:       50 * time.Millisecond,
		}
		for _, set := range with {
			set(monitor)
		}
		monitor.Run(ctx)
		return nil
	})
}

// run runs a part until the test ends, or stop is called.
func run(t testing.TB, part func(context.Context) error) (stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- part(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.OK(t, <-ended)
	})
	t.Cleanup(stop)
	return stop
}

// await waits until readers see what a command did; only read models that it concerns ever get there.
func (w *world) await(at eventstore.Position, err error, readModels ...string) {
	w.t.Helper()
	must.OK(w.t, err)
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	must.True(w.t, w.runner.Progress.Await(ctx, at, readModels...), "a write did not become visible")
}

func (w *world) source(in command.RegisterSource) uuid.UUID {
	w.t.Helper()
	made, err := w.commands.RegisterSource(w.t.Context(), command.Caller{Actor: "operator"}, in)
	w.await(made.Position, err, sources.ReadModel.Name)
	return made.ID
}

func (w *world) feed() uuid.UUID {
	w.t.Helper()
	feed, err := w.commands.CreateFeed(w.t.Context(), w.by, command.CreateFeed{Name: "Concerts", Description: "In town"})
	w.await(feed.Position, err, feeds.ReadModel.Name)
	return feed.ID
}

func (w *world) attach(feed, source uuid.UUID, sourceType string) uuid.UUID {
	w.t.Helper()
	attached, err := w.commands.AttachSource(w.t.Context(), w.by, command.AttachSource{
		FeedID:     feed,
		SourceType: sourceType,
		SourceID:   source,
	})
	w.await(attached.Position, err, feeds.ReadModel.Name, sources.ReadModel.Name, items.ReadModel.Name)
	a, _ := attached.Value.SourceAssociation(source)
	return a.ID
}

// collect asks for a collection.
func (w *world) collect(source uuid.UUID) {
	w.t.Helper()
	changed, err := w.commands.CollectSource(w.t.Context(), command.Caller{Actor: "operator"},
		command.CollectSource{Source: source})
	w.await(changed.Position, err, sources.ReadModel.Name)
}

// titles of the items of a feed, with their ids.
func (w *world) titles(feed uuid.UUID) map[string]uuid.UUID {
	w.t.Helper()
	now := time.Now()
	page := must.Get(w.queries.Items(w.t.Context(), w.by.Organization, feed, query.ItemsQuery{
		Since:   now.Add(-7 * 24 * time.Hour),
		Until:   now.Add(30 * 24 * time.Hour),
		OrderBy: query.OrderByOccurrence,
		Limit:   100,
		Now:     now,
	}))(w.t)
	var list []struct {
		ID    uuid.UUID
		Title string
	}
	must.OK(w.t, json.Unmarshal(page.Items, &list))
	titles := map[string]uuid.UUID{}
	for _, i := range list {
		titles[i.Title] = i.ID
	}
	return titles
}

// eventuallyItems waits until a feed holds items of exactly these titles.
func (w *world) eventuallyItems(feed uuid.UUID, want ...string) {
	w.t.Helper()
	must.Eventually(w.t, "the feed's items", func() bool {
		got := w.titles(feed)
		for _, title := range want {
			if _, there := got[title]; !there {
				return false
			}
		}
		return len(got) == len(want)
	})
}

// eventuallyState waits until n collections from a source have ended and it is in a state.
func (w *world) eventuallyState(source uuid.UUID, collections int, state string) query.Source {
	w.t.Helper()
	var got query.Source
	must.Eventually(w.t, "source is "+state, func() bool {
		var last eventstore.Position
		ended := 0
		for _, event := range w.recorded("source.collection-completed.v1", "source.collection-failed.v1",
			"source.credentials-missing.v1", "source.javascript-needed.v1") {
			if event.StreamID() == source {
				ended, last = ended+1, event.Position
			}
		}
		if ended < collections || !w.runner.Progress.Await(w.t.Context(), last, sources.ReadModel.Name) {
			return false
		}
		got = w.listed(source)
		return got.State == state
	})
	return got
}

// recorded lists the events of some types, in order. It reads on from the last
// one that it has seen, as waiting tests call it often.
func (w *world) recorded(eventTypes ...string) (list []eventstore.Recorded) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	seen := eventstore.Start
	if len(w.log) > 0 {
		seen = w.log[len(w.log)-1].Position
	}
	head := must.Get(w.store.Head(ctx))(w.t)
	for event, err := range eventstore.Between(ctx, w.store, seen, head, eventstore.Filter{}) {
		must.OK(w.t, err)
		w.log = append(w.log, *event)
	}
	for i := range w.log {
		if slices.Contains(eventTypes, w.log[i].Type) {
			list = append(list, w.log[i])
		}
	}
	return list
}

func (w *world) listed(source uuid.UUID) query.Source {
	w.t.Helper()
	found, err := w.queries.Source(w.t.Context(), source)
	must.True(w.t, err == nil, "source %s: %v", source, err)
	return found
}
