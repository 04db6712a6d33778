package deliveries_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/dispatch"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
	"carillon/query"
)

// pause runs a function before the second statement that has a text: by then, the connection has prepared its
// statements for the old tables.
type pause struct {
	text string
	run  func()
	seen int
}

// TraceQueryStart implements pgx.QueryTracer.
func (p *pause) TraceQueryStart(ctx context.Context, _ *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if strings.Contains(data.SQL, p.text) {
		if p.seen++; p.seen == 2 {
			p.run()
		}
	}
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (*pause) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// TestListDuringRebuildIsOfOneSide lets a rebuild take over between two statements of a list. The old read model has
// lost one of two deliveries, so that the total of one side and the page of the other differ. Other lists don't wait
// while the rebuild does: for a writer before it takes over, and afterwards for the list that reads the old tables.
func TestListDuringRebuildIsOfOneSide(t *testing.T) {
	t.Parallel()
	for name, list := range map[string]func(ctx context.Context, q *query.Queries) (listed, total int, err error){
		"of a destination": func(ctx context.Context, q *query.Queries) (int, int, error) {
			page, total, err := q.Deliveries(ctx, org, alpha, query.DeliveryFilter{Limit: 10}, noon)
			return len(page), total, err
		},
		"of all destinations": func(ctx context.Context, q *query.Queries) (int, int, error) {
			page, err := q.AllDeliveries(ctx, org, query.DeliveryFilter{Feed: feed, Limit: 10}, query.DeliveryMark{}, noon)
			return len(page), len(page), err
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := startNode(t)
			n.twoDeliveries()
			n.exec("DELETE FROM deliveries.deliveries WHERE id = $1", dispatch.DeliveryID(event(1), alpha))
			n.exec("DELETE FROM deliveries.due WHERE id = $1", dispatch.DeliveryID(event(1), alpha))
			n.exec("UPDATE deliveries.tallies SET total = 1")
			others := func(when string, want int) {
				t.Helper()
				ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
				defer cancel()
				if listed, total, err := list(ctx, &query.Queries{Pool: n.pool}); err != nil || listed != want || total != want {
					t.Errorf("%s: others list %d of %d (%v), want %d", when, listed, total, err, want)
				}
			}
			rebuilt := make(chan error, 1)
			between := &pause{text: ") page\n", run: func() {
				writer, err := n.pool.Begin(t.Context())
				if err != nil {
					t.Error(err)
					return
				}
				defer func() { _ = writer.Rollback(context.WithoutCancel(t.Context())) }()
				assert.OK(t, assert.Err(writer.Exec(t.Context(), "LOCK TABLE deliveries.due IN ROW EXCLUSIVE MODE")))
				go func() { rebuilt <- n.runner.Rebuild(t.Context(), deliveries.ReadModel, nil) }()
				n.eventually(`SELECT EXISTS (SELECT FROM pg_locks l JOIN pg_database d ON d.oid = l.database
					WHERE d.datname = current_database() AND NOT l.granted)`)
				others("before it takes over", 1)
				assert.OK(t, writer.Rollback(t.Context()))
				n.eventually("SELECT to_regnamespace('deliveries__old') IS NOT NULL")
				others("after it took over", 2)
			}}
			config := n.pool.Config()
			config.ConnConfig.Tracer, config.MaxConns = between, 1
			traced := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
			defer traced.Close()
			if _, _, err := list(t.Context(), &query.Queries{Pool: traced}); err != nil {
				t.Error(err)
			}
			listed, total, err := list(t.Context(), &query.Queries{Pool: traced})
			assert.True(t, err == nil && listed == total && total >= 1,
				"listed %d of %d (%v), want as many as there are on one side", listed, total, err)
			must.OK(t, <-rebuilt)
			var left bool
			err = n.pool.QueryRow(t.Context(), "SELECT to_regnamespace('deliveries__old') IS NOT NULL").Scan(&left)
			assert.True(t, err == nil && !left, "the old tables are left: %v (%v)", left, err)
		})
	}
}

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
	runner := projecttest.Runner(t, pool, store)
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
			must.OK(t, <-ended)
		}
	})
	n := node{t, store, pool, runner}
	for _, p := range read { // also those that no test puts anything into are read
		n.eventually("SELECT to_regnamespace('" + p.Name + "') IS NOT NULL")
	}
	return n
}

// twoDeliveries schedules two deliveries to alpha.
func (n node) twoDeliveries() {
	n.t.Helper()
	h := history{projecttest.New(n.t), n.t}
	h.destination(alpha)
	for event := range 2 {
		h.due(event+1, to(alpha))
	}
	h.AppendTo(n.store)
	n.eventually(`SELECT (SELECT count(*) FROM destinations.destinations) = 1
		AND (SELECT count(*) FROM publications.publications) = 2 AND (SELECT count(*) FROM deliveries.due) = 2`)
}

func (n node) exec(sql string, arguments ...any) {
	n.t.Helper()
	must.Get(n.pool.Exec(n.t.Context(), sql, arguments...))(n.t)
}

// eventually waits until a query answers true.
func (n node) eventually(sql string) {
	n.t.Helper()
	must.Eventually(n.t, sql, func() (yes bool) {
		must.OK(n.t, n.pool.QueryRow(n.t.Context(), sql).Scan(&yes))
		return yes
	})
}
