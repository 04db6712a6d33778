package analytics_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

const patience = 2 * time.Minute

// changed is a read model as another version of the program has it.
func changed(m projections.ReadModel) projections.ReadModel {
	m.Schema += "CREATE TABLE of_another_version (x integer);"
	return m
}

// A reader looks at the views all the time, while the tables under them are replaced again and again.
func TestReadersNeverMissAView(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := made(t)
	runner := projecttest.Runner(t, pool, nodetest.Start(t))
	reading, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() {
		for {
			for _, view := range views {
				_, err := pool.Exec(reading, "SELECT count(*) FROM analytics."+view)
				if reading.Err() != nil {
					ended <- nil
					return
				}
				if err != nil {
					ended <- err
					return
				}
			}
		}
	}()
	before := rows(t, pool, oids)
	for range 5 {
		for _, p := range readModels() {
			if err := runner.Rebuild(ctx, p, nil); err != nil {
				t.Errorf("rebuild %s: %v", p.Name, err)
			}
		}
	}
	stop()
	must.OK(t, <-ended)
	after := rows(t, pool, oids)
	assert.True(t, len(after) == len(views) && strings.Join(before, "") != strings.Join(after, ""),
		"views after the rebuilds: %v", after)
	must.OK(t, as(t, pool, analytics.Role, "SELECT FROM analytics.deliveries_by_day"))
}

// The runner of a program whose read model has another schema makes the tables again.
func TestViewsSurviveAChangedReadModel(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	pool := made(t)
	runner := projecttest.Runner(t, pool, nodetest.Start(t))
	running, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- runner.Project(running, changed(deliveries.ReadModel)) }()
	for {
		var there bool
		must.OK(t, pool.QueryRow(ctx, "SELECT to_regclass('deliveries.of_another_version') IS NOT NULL").
			Scan(&there))
		if there {
			break
		}
	}
	for _, view := range views {
		assert.Is(t, as(t, pool, analytics.Role, "SELECT FROM analytics."+view), nil, "%s", view)
	}
	stop()
	must.OK(t, <-ended)
}

func TestViewsOfAnotherVersionAreReplaced(t *testing.T) {
	t.Parallel()
	pool := made(t)
	must.Get(pool.Exec(t.Context(), `DROP VIEW analytics.feedback; CREATE VIEW analytics.feedback AS SELECT 1 AS old;
		COMMENT ON SCHEMA analytics IS 'of an older version'`))(t)
	ensure(t, pool)
	must.OK(t, as(t, pool, analytics.Role, "SELECT rating FROM analytics.feedback"))
	before := rows(t, pool, oids)
	ensure(t, pool)
	assert.Equal(t, strings.Join(rows(t, pool, oids), ""), strings.Join(before, ""), "the new version is replaced again")
}

// A read model that an older program made may lack what a view wants: the rest goes on, and the view follows.
func TestViews_failureDelaysNothing(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t, readModels()...)
	must.Get(pool.Exec(t.Context(), "DROP SCHEMA analytics CASCADE;"+
		"DROP VIEW destinations.all_destinations; ALTER TABLE destinations.destinations RENAME name TO title"))(t)
	must.OK(t, pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		err := analytics.Create(t.Context(), tx)
		assert.True(t, errors.Is(err, analytics.ErrIncomplete) && strings.Contains(err.Error(), "success_rates"),
			"create: %v, want incomplete", err)
		return nil
	}))
	log, out := logged()
	if err := analytics.Ensure(t.Context(), pool, log); err != nil ||
		!strings.Contains(out.String(), "deliveries_by_day") {
		t.Errorf("%v\n%s", err, out)
	}
	assert.Equal(t, len(rows(t, pool, oids)), 9, "views")
	remake := func() error {
		return pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			return analytics.Around(t.Context(), tx, destinations.ReadModel.Name, func() error {
				_, err := tx.Exec(t.Context(),
					"DROP SCHEMA destinations CASCADE; CREATE SCHEMA destinations; SET LOCAL search_path TO destinations, public;"+
						destinations.ReadModel.Schema)
				return err
			})
		})
	}
	must.OK(t, remake())
	assert.Equal(t, len(rows(t, pool, oids)), len(views), "views")
}

// A report that takes its time must not keep a new version of the program from starting.
func TestViews_busyAnalystDelaysNoStart(t *testing.T) {
	t.Parallel()
	pool := made(t)
	must.Get(pool.Exec(t.Context(), "COMMENT ON SCHEMA analytics IS 'of an older version'"))(t)
	report := must.Get(pool.Begin(t.Context()))(t)
	must.Get(report.Exec(t.Context(), "SELECT FROM analytics.feedback"))(t)
	log, out := logged()
	err := analytics.Ensure(t.Context(), pool, log)
	assert.True(t, err == nil && strings.Contains(out.String(), "feedback"), "%v\n%s", err, out)
	must.OK(t, report.Rollback(t.Context()))
	ensure(t, pool)
}

func TestWithoutTheRightToMakeRoles(t *testing.T) {
	t.Parallel()
	super := pgtest.NewServer(t).Pool()
	pool := ordinary(t, super, "")
	must.OK(t, projecttest.Prepare(t.Context(), pool, readModels()...))
	log, out := logged()
	if err := analytics.Ensure(t.Context(), pool, log); err != nil ||
		!strings.Contains(out.String(), "CREATE ROLE carillon_analyst") {
		t.Fatalf("%v\n%s", err, out)
	}
	assert.Equal(t, len(rows(t, pool, oids)), len(views), "views")
	must.Get(super.Exec(t.Context(), "CREATE ROLE "+analytics.Role+"; GRANT "+analytics.Role+" TO plain"))(t)
	ensure(t, pool)
	must.OK(t, as(t, pool, analytics.Role, "SELECT FROM analytics.feedback"))
	if err := as(t, pool, analytics.Role, "SELECT FROM deliveries.deliveries"); !denied(err) {
		t.Errorf("deliveries.deliveries: %v, want denied", err)
	}
}

func TestOthersTakeNoNoticeOfTheViews(t *testing.T) {
	t.Parallel()
	pool := pgtest.Pool(t)
	called := errors.New("called")
	err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
		return analytics.Around(t.Context(), tx, "auditors", func() error { return called })
	})
	assert.Is(t, err, called, "err")
	got := rows(t, pool, "SELECT FROM pg_namespace WHERE nspname = 'analytics'")
	assert.True(t, len(got) == 0, "a read model without views made the schema")
}
