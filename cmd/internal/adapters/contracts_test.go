package adapters_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/fetch/hoststest"
	"carillon/command/curate"
	"carillon/command/curate/curatetest"
	"carillon/command/visiting"
	"carillon/command/visiting/visitingtest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/items"
	"carillon/projections/projecttest"
	"carillon/projections/sources"
)

// walks is a Postgres with sources, and the memory of walks there.
type walks struct {
	*adapters.Walks

	pool *pgxpool.Pool
	log  *projecttest.Log
}

func openWalks(t *testing.T) *walks {
	t.Helper()
	log := projecttest.New(t, sources.ReadModel, items.ReadModel)
	return &walks{adapters.NewWalks(log.Database), log.Database, log}
}

// Another implements visitingtest.Subject.
func (w *walks) Another() visiting.Walks { return adapters.NewWalks(w.pool) }

// Source implements visitingtest.Subject.
func (w *walks) Source(t *testing.T, id uuid.UUID, events ...source.Event) {
	t.Helper()
	projecttest.Stream(w.log, source.Aggregate, id, time.Now())(events...)
	w.log.Project()
}

// Happening implements visitingtest.Subject.
func (w *walks) Happening(t *testing.T, id uuid.UUID, events ...happening.Event) {
	t.Helper()
	projecttest.Stream(w.log, happening.Aggregate, id, time.Now())(events...)
	w.log.Project()
}

// Age implements visitingtest.Subject.
func (w *walks) Age(t *testing.T, d time.Duration) {
	t.Helper()
	w.exec(t, `UPDATE carillon.source_pages SET asked_at = asked_at - $1::interval, read_at = read_at - $1::interval,
		until = until - $1::interval`, d)
	w.exec(t, `UPDATE carillon.source_walks SET next_at = next_at - $1::interval,
		held_until = held_until - $1::interval`, d)
	w.exec(t, "UPDATE carillon.source_views SET restored_at = restored_at - $1::interval", d)
}

// Lose implements visitingtest.Subject.
func (w *walks) Lose(t *testing.T) {
	t.Helper()
	w.exec(t, "DELETE FROM carillon.source_walks")
}

func (w *walks) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	must.Get(w.pool.Exec(t.Context(), sql, args...))(t)
}

func TestWalksKeepTheContract(t *testing.T) {
	t.Parallel()
	visitingtest.Run(t, func(t *testing.T) visitingtest.Subject {
		t.Helper()
		return openWalks(t)
	})
}

func TestHostsKeepTheContract(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	hoststest.Run(t, func(*testing.T) fetch.Hosts { return adapters.Hosts{Pool: pool} })
}

// A Postgres that is away is no fault of the source's.
func TestHostsWithoutPostgres(t *testing.T) {
	t.Parallel()
	pool, err := pgxpool.New(t.Context(), "postgres://carillon@127.0.0.1:1/nothing?connect_timeout=1")
	must.OK(t, err)
	defer pool.Close()
	hosts := adapters.Hosts{Pool: pool}
	_, _, err = hosts.Take(t.Context(), "a.example", time.Second)
	_, _, read := hosts.Robots(t.Context(), "https://a.example")
	for _, err := range []error{err, read, hosts.Rest(t.Context(), "a.example", time.Second),
		hosts.KeepRobots(t.Context(), "https://a.example", fetch.Robots{})} {
		assert.Is(t, err, collect.ErrUnavailable, "err")
	}
}

// idle is a curation that runs, and lends its memory in place of reacting.
type idle struct {
	adapters.FeedCuration

	runs chan<- adapters.FeedCuration
}

// React implements eventstore.ProcessManager.
func (i idle) React(ctx context.Context, _ []eventstore.Recorded) error {
	i.runs <- i.FeedCuration
	<-ctx.Done()
	return nil
}

func TestCurationsMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	curatetest.Run(t, func(t *testing.T) (curate.Memory, curate.Likeness) {
		t.Helper()
		pool, store, log := projecttest.Pool(t), nodetest.Start(t), slog.New(slog.DiscardHandler)
		runner := projecttest.Runner(t, pool, store)
		runs := make(chan adapters.FeedCuration, 1)
		run(t, func(ctx context.Context) error {
			return runner.React(ctx, func(tables *projections.Tables) eventstore.ProcessManager {
				return idle{adapters.NewFeedCuration(tables, store, nil, 0, log).SmallPages(), runs}
			})
		})
		processtest.Record(t, store, feed.Aggregate, uuid.New(), feed.Event(feed.Created{At: time.Now()}))
		return (<-runs).Memory()
	})
}
