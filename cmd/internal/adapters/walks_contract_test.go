package adapters_test

import (
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command/visiting"
	"carillon/command/visiting/visitingtest"
	"carillon/eventstore/storetest/must"
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
