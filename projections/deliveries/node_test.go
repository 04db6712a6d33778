package deliveries_test

import (
	"context"
	"log/slog"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
)

// node is an event store whose events are projected.
type node struct {
	t      testing.TB
	store  eventstore.Store
	pool   *pgxpool.Pool
	runner *projections.Runner
}

func startNode(t testing.TB) node {
	t.Helper()
	store, pool := nodetest.Start(t), projecttest.Pool(t)
	runner := &projections.Runner{
		Pool:     pool,
		Locks:    pgtest.Locks(t, pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(pool),
	}
	running, stop := context.WithCancel(t.Context())
	read := []projections.ReadModel{
		destinations.ReadModel, organizations.ReadModel, publications.ReadModel, deliveries.ReadModel,
	}
	ended := make(chan error, len(read))
	for _, p := range read {
		go func() { ended <- runner.Project(running, p) }()
	}
	t.Cleanup(func() {
		stop()
		for range read {
			if err := <-ended; err != nil {
				t.Error(err)
			}
		}
	})
	n := node{t, store, pool, runner}
	for _, p := range read { // also those that no test puts anything into are read
		n.eventually("SELECT to_regnamespace('" + p.Name + "') IS NOT NULL")
	}
	return n
}
