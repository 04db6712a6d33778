package adapters_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/collect"
	"carillon/command/collection"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/feeds"
	"carillon/projections/items"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
	"carillon/query"
)

const patience = 2 * time.Minute // for what has to happen, on a busy machine

// world is everything between a source and the items of a feed, for real.
type world struct {
	t        testing.TB
	pool     *pgxpool.Pool
	store    *esdb.Store
	runner   *projections.Runner
	commands *command.Commands
	queries  *query.Queries
	by       command.Caller
	stop     func()                // the monitor and the curation of feeds
	log      []eventstore.Recorded // what was seen of the store's, see recorded
}

// open starts the store, the read models and, with some collectors, the curation of feeds and the monitor.
func open(t testing.TB, collectors map[string]collect.Collector) *world {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	w := &world{t: t, pool: projecttest.Pool(t), store: nodetest.Start(t)}
	types, err := catalog.New()
	if err != nil {
		t.Fatal(err)
	}
	w.queries = &query.Queries{Pool: w.pool}
	w.commands = &command.Commands{Store: w.store, Now: time.Now, Catalog: types, Walks: w.queries}
	w.runner = &projections.Runner{Pool: w.pool, Store: w.store, Log: log, Progress: projections.NewProgress(w.pool)}
	for _, p := range []projections.ReadModel{organizations.ReadModel, feeds.ReadModel, sources.ReadModel, items.ReadModel} {
		run(t, func(ctx context.Context) error { return w.runner.Project(ctx, p) })
	}
	w.eventually("the read models are there", func() bool {
		var schemas int
		err := w.pool.QueryRow(t.Context(), `SELECT count(DISTINCT schemaname) FROM pg_tables
			WHERE schemaname IN ('organizations', 'feeds', 'sources', 'items')`).Scan(&schemas)
		return err == nil && schemas == 4
	})
	org, at, err := w.commands.RegisterOrganization(t.Context(), command.Caller{Actor: "operator"}, command.RegisterOrganization{Name: "Town hall"})
	w.await(at, err, organizations.ReadModel.Name)
	w.by = command.Caller{Organization: org, Actor: "key:test", RequestID: uuid.New()}
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
		return w.runner.React(ctx, func() eventstore.ProcessManager { return adapters.NewFeedCuration(w.store, w.commands, log) })
	})
}

func (w *world) monitor(store eventstore.Store, collectors map[string]collect.Collector, with ...func(*collection.Monitor)) (stop func()) {
	w.t.Helper()
	return run(w.t, func(ctx context.Context) error {
		monitor := &collection.Monitor{
			Store: store, Now: time.Now, Log: slog.New(slog.DiscardHandler), Walks: adapters.NewWalks(w.pool), Collectors: collectors,
			Poll: 10 * time.Millisecond,
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
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return stop
}

func (w *world) eventually(what string, holds func() bool) {
	w.t.Helper()
	deadline := time.After(patience)
	for !holds() {
		select {
		case <-deadline:
			w.t.Fatalf("not within %s: %s", patience, what)
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// await waits until readers see what a command did; only read models that it concerns ever get there.
func (w *world) await(at eventstore.Position, err error, readModels ...string) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	if !w.runner.Progress.Await(ctx, at, readModels...) {
		w.t.Fatal("a write did not become visible")
	}
}

func (w *world) source(in command.RegisterSource) uuid.UUID {
	w.t.Helper()
	id, at, err := w.commands.RegisterSource(w.t.Context(), command.Caller{Actor: "operator"}, in)
	w.await(at, err, sources.ReadModel.Name)
	return id
}

func (w *world) feed() uuid.UUID {
	w.t.Helper()
	feed, err := w.commands.CreateFeed(w.t.Context(), w.by, command.CreateFeed{Name: "Concerts", Description: "In town"})
	w.await(feed.Position, err, feeds.ReadModel.Name)
	return feed.ID
}

func (w *world) attach(feed, source uuid.UUID, sourceType string) uuid.UUID {
	w.t.Helper()
	attached, err := w.commands.AttachSource(w.t.Context(), w.by, command.AttachSource{FeedID: feed, SourceType: sourceType, SourceID: source})
	w.await(attached.Position, err, feeds.ReadModel.Name, sources.ReadModel.Name, items.ReadModel.Name)
	a, _ := attached.State.SourceAssociation(source)
	return a.ID
}

// collect asks for a collection.
func (w *world) collect(source uuid.UUID) {
	w.t.Helper()
	at, err := w.commands.CollectSource(w.t.Context(), command.Caller{Actor: "operator"}, command.CollectSource{Source: source})
	w.await(at, err, sources.ReadModel.Name)
}

// titles of the items of a feed, with their ids.
func (w *world) titles(feed uuid.UUID) map[string]uuid.UUID {
	w.t.Helper()
	now := time.Now()
	page, err := w.queries.Items(w.t.Context(), w.by.Organization, feed, query.ItemsQuery{
		Since: now.Add(-7 * 24 * time.Hour), Until: now.Add(30 * 24 * time.Hour), OrderBy: query.OrderByOccurrence, Limit: 100, Now: now,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	var list []struct {
		ID    uuid.UUID
		Title string
	}
	if err := json.Unmarshal(page.Items, &list); err != nil {
		w.t.Fatal(err)
	}
	titles := map[string]uuid.UUID{}
	for _, i := range list {
		titles[i.Title] = i.ID
	}
	return titles
}

// eventuallyItems waits until a feed holds items of exactly these titles.
func (w *world) eventuallyItems(feed uuid.UUID, want ...string) {
	w.t.Helper()
	w.eventually("the feed's items", func() bool {
		got := w.titles(feed)
		for _, title := range want {
			if _, there := got[title]; !there {
				return false
			}
		}
		return len(got) == len(want)
	})
}

// eventuallyState waits until so many collections from a source have ended and it is in a state.
func (w *world) eventuallyState(source uuid.UUID, collections int, state string) query.Source {
	w.t.Helper()
	var got query.Source
	w.eventually("source is "+state, func() bool {
		var last eventstore.Position
		ended := 0
		for _, event := range w.recorded("source.collection-completed.v1", "source.collection-failed.v1", "source.credentials-missing.v1", "source.javascript-needed.v1") {
			if event.StreamID() == source {
				ended, last = ended+1, event.Position
			}
		}
		if ended < collections || !w.runner.Progress.Await(w.t.Context(), last, sources.ReadModel.Name) {
			return false
		}
		all, err := w.queries.Sources(w.t.Context(), query.SourceFilter{})
		if err != nil {
			w.t.Fatal(err)
		}
		at := slices.IndexFunc(all, func(s query.Source) bool { return s.ID == source })
		if at < 0 {
			w.t.Fatalf("source %s is not listed", source)
		}
		got = all[at]
		return got.State == state
	})
	return got
}

// recorded lists all events of some types that the store holds, in order. What was seen once is not read again: who waits
// asks often.
func (w *world) recorded(eventTypes ...string) (list []eventstore.Recorded) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), patience)
	defer cancel()
	seen := eventstore.Start
	if len(w.log) > 0 {
		seen = w.log[len(w.log)-1].Position
	}
	for m, err := range w.store.Subscribe(ctx, seen, eventstore.Filter{}) {
		if err != nil {
			w.t.Fatal(err)
		}
		if m.CaughtUp {
			break
		}
		if m.Event != nil {
			w.log = append(w.log, *m.Event)
		}
	}
	for i := range w.log {
		if slices.Contains(eventTypes, w.log[i].Type) {
			list = append(list, w.log[i])
		}
	}
	return list
}
