package analytics_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/aggregates/feed"
	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/organization"
	"carillon/aggregates/source"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/feeds"
	"carillon/projections/health"
	"carillon/projections/items"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
	"carillon/projections/sources"
)

var (
	org   = uuid.MustParse("11111111-1111-4111-8111-111111111111")
	dest  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	feedA = uuid.MustParse("33333333-3333-4333-8333-333333333333")
	page  = uuid.MustParse("44444444-4444-4444-8444-444444444444")
	noon  = time.Now().UTC().Truncate(24 * time.Hour).Add(12 * time.Hour) // today: success rates are recent
	day   = noon.Format(time.DateOnly)
)

// views are those of the interface to analysts.
var views = []string{
	"attempts", "deliveries", "deliveries_by_day", "destination_days", "destinations", "events",
	"failures_by_reason", "feedback", "feedback_days", "feeds",
	"items", "items_by_source_and_feed", "latency_percentiles", "organizations", "source_health", "sources",
	"success_rates",
}

func readModels() []projections.ReadModel {
	return []projections.ReadModel{deliveries.ReadModel, destinations.ReadModel, items.ReadModel, feeds.ReadModel,
		sources.ReadModel, health.ReadModel, organizations.ReadModel, publications.ReadModel}
}

// logged is a separate log; tests read it when the program does not write.
func logged() (*slog.Logger, *bytes.Buffer) {
	var out bytes.Buffer
	return slog.New(slog.NewTextHandler(&out, nil)), &out
}

// ensure makes the views, which must work without a remark.
func ensure(t *testing.T, pool *pgxpool.Pool) {
	t.Helper()
	log, out := logged()
	err := analytics.Ensure(t.Context(), pool, log)
	must.True(t, err == nil && out.Len() <= 0, "%v\n%s", err, out)
}

// rows returns what a query finds, without places in the log.
func rows(t *testing.T, pool *pgxpool.Pool, query string) []string {
	t.Helper()
	found := must.Get(pool.Query(t.Context(), "SELECT to_jsonb(q) - 'changed_sequence' FROM ("+query+") q"))(t)
	lines, err := pgx.CollectRows(found, func(row pgx.CollectableRow) (string, error) {
		var line json.RawMessage
		err := row.Scan(&line)
		return string(line), err
	})
	must.True(t, err == nil, "%s: %v", query, err)
	return lines
}

// made is a database with empty read models and the views on them.
func made(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := projecttest.Pool(t, readModels()...)
	ensure(t, pool)
	return pool
}

// record records four deliveries, three items of which one was removed, and an opinion.
func record(log *projecttest.Log) {
	projecttest.Stream(log, organization.Aggregate, org, noon)(organization.Registered{Name: "Town hall", At: noon})
	projecttest.Stream(log, destination.Aggregate, dest, noon)(destination.Created{
		Organization: org, At: noon,
		Settings: destination.Settings{
			Name: "CRM",

			ExternalID: "crm",
			URL:        "https://crm.example/capability-in-the-path",
			Headers:    destination.Sealed{Data: []byte("sealed headers")},
		},
	}, destination.SecretMinted{SecretID: uuid.New(), Sealed: []byte("sealed secret"), At: noon})
	for n, status := range []delivery.Status{delivery.StatusSucceeded, delivery.StatusSucceeded,
		delivery.StatusFailed, ""} {
		event := uuid.NewSHA1(feedA, fmt.Append(nil, n))
		projecttest.Stream(log, dispatch.Aggregate, event, noon)(dispatch.DeliveriesScheduled{
			Publication: event,
			At:          noon,
			Event: dispatch.Summary{
				Type:     "news.item.added",
				Source:   "/news",
				Time:     noon,
				FeedType: "news",
				FeedID:   feedA,
			},
			Deliveries: []dispatch.Scheduled{{Destination: dest, Organization: org, Subscriptions: []uuid.UUID{uuid.New()}}},
		})
		if status == "" {
			continue
		}
		outcome := delivery.Outcome{
			ResponseStatus: 200,
			ResponseBody:   []byte("sealed answer"),
			DurationMicros: int64(n+1) * 10_000,
		}
		if status == delivery.StatusFailed {
			outcome.ResponseStatus, outcome.FailureReason, outcome.ErrorMessage = 500, "http_status", "endpoint answered 500"
		}
		projecttest.Stream(log, delivery.Aggregate, dispatch.DeliveryID(event, dest), noon)(delivery.Attempted{
			Organization: org,
			Destination:  dest,
			Number:       1,
			Trigger:      delivery.Automatic,
			Outcome:      outcome,
			Status:       status,
			At:           noon,
		})
	}
	projecttest.Stream(log, source.Aggregate, page, noon)(source.Registered{
		Type: source.TypeSite,
		URL:  "https://user:hunter2@Example.org:8443/private-key/cal.ics?token=hunter2",
		At:   noon,
	})
	projecttest.Stream(log, feed.Aggregate, feedA, noon)(
		feed.Created{
			Organization: org,
			Settings:     feed.Settings{Name: "Concerts"},
			Enabled:      true,
			At:           noon,
		}, feed.SourceAttached{
			AssociationID: uuid.New(),
			SourceID:      page,
			SourceType:    source.TypeSite,
			At:            noon,
		})
	for n := range 3 {
		id := uuid.NewSHA1(page, fmt.Append(nil, n))
		projecttest.Stream(log, happening.Aggregate, id, noon)(happening.Observed{
			SourceID: page,
			Key:      "k",
			Details:  happening.Details{Title: "A"},
			At:       noon,
		})
		at := noon.Add(time.Duration(n) * time.Hour)
		onItem := projecttest.Stream(log, item.Aggregate, item.ID(feedA, id), noon)
		onItem(item.Added{
			FeedID:      feedA,
			HappeningID: id,
			SourceID:    page,
			At:          at,
		})
		if n == 0 {
			onItem(item.FeedbackGiven{
				FeedID:       feedA,
				FeedbackID:   uuid.New(),
				Organization: org,
				Rating:       item.Positive,
				Comment:      "Nice",
				At:           noon,
			})
		}
		if n == 2 {
			onItem(item.Removed{
				FeedID:      feedA,
				HappeningID: id,
				Reason:      "gone",
				At:          at,
			})
		}
	}
}

func TestViewsShowWhatHappened(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, readModels()...)
	pool := log.Database
	ensure(t, pool)
	record(log)
	log.Project()
	of := `"organization_id": "` + org.String() + `", "destination_id": "` + dest.String() + `", "destination_name": "CRM"`
	external := `"destination_external_id": "crm", "organization_name": "Town hall"`
	counted := external + `, "destination_deleted_at": null`
	inFeed := `"feed_id": "` + feedA.String() + `"`
	for query, want := range map[string]string{
		"SELECT * FROM analytics.deliveries_by_day": `{"day": "` + day + `", ` + of +
			`, "event_type": "news.item.added", "deliveries": 4, "succeeded": 2, "failed": 1, "superseded": 0, ` +
			`"discarded": 0, "pending": 1, "waiting": 1, "retrying": 0, "delivering": 0, ` + counted + `, "notice": false}`,
		"SELECT * FROM analytics.success_rates WHERE last_days = 7": `{` + of +
			`, "last_days": 7, "succeeded": 2, "failed": 1, "success_rate": 0.6667, ` +
			`"attempts": 3, "failed_attempts": 1, "attempt_success_rate": 0.6667, ` + counted + `}`,
		"SELECT * FROM analytics.latency_percentiles": `{"day": "` + day + `", ` + of +
			`, "attempts": 3, "p50_ms": 20, "p90_ms": 28, "p95_ms": 29, "p99_ms": 29.8, "max_ms": 30, ` + counted + `}`,
		"SELECT * FROM analytics.items_by_source_and_feed": `{"organization_id": "` + org.String() + `", ` + inFeed +
			`, "feed_name": "Concerts", "feed_type": "event", "source_id": "` + page.String() +
			`", "source_type": "site", "source": "Example.org", "items": 2, "first_added_at": "` + day +
			`T12:00:00+00:00", "last_added_at": "` + day + `T13:00:00+00:00"}`,
		"SELECT given_at, feed_name, source_type, rating, comment FROM analytics.feedback WHERE organization_id = '" +
			org.String() + "'": `{"given_at": "` + day + `T12:00:00+00:00", "feed_name": "Concerts", ` +
			`"source_type": "site", "rating": "positive", "comment": "Nice"}`,
		"SELECT day, feed_name, rating, count FROM analytics.feedback_days WHERE organization_id = '" +
			org.String() + "'": `{"day": "` + day + `", "feed_name": "Concerts", "rating": "positive", "count": 1}`,
		"SELECT * FROM analytics.feeds": `{"organization_id": "` + org.String() + `", ` + inFeed +
			`, "feed_name": "Concerts", "enabled": true, "created_at": "` + day +
			`T12:00:00+00:00", "sources": 1, "readers": 0, "items": 2, "upcoming": 0, "last_added_at": "` + day +
			`T13:00:00+00:00"}`,
		"SELECT feed_name, title, source_type, occurrences, first_starts_at, next_starts_at FROM analytics.items " +
			"WHERE item_id = '" + item.ID(feedA, uuid.NewSHA1(page, []byte("0"))).String() + "'": `{"feed_name": ` +
			`"Concerts", "title": "A", "source_type": "site", "occurrences": 0, "first_starts_at": null, ` +
			`"next_starts_at": null}`,
		"SELECT * FROM analytics.sources": `{"source_id": "` + page.String() +
			`", "source_type": "site", "source": "Example.org", "created_at": "` + day +
			`T12:00:00+00:00", "state": "registered", "outcome": "", "failures": 0, "completed_at": null, ` +
			`"interval_seconds": 1800, "feeds": 1, "backfills": 1, "on_show": 3, "gone": 0, "retired": null, "items": 2, ` +
			`"last_added_at": "` + day + `T13:00:00+00:00"}`,
		"SELECT day, attempts, deliveries, reason, http_status " +
			"FROM analytics.failures_by_reason": `{"day": "` + day +
			`", "attempts": 1, "deliveries": 1, "reason": "http_status", "http_status": 500}`,
		"SELECT * FROM analytics.destination_days": `{"day": "` + day + `", ` + of +
			`, "deliveries": 4, "succeeded": 2, "failed": 1, "pending": 1, "waiting": 1, "retrying": 0, ` +
			`"delivering": 0, "success_rate": 0.6667, "attempts": 3, "failed_attempts": 1, ` +
			`"attempt_success_rate": 0.6667, "p50_ms": 20, "p95_ms": 29, "p99_ms": 29.8, ` + counted + `}`,
		"SELECT source, state, failures, needs_attention, completed_at, feeds " +
			"FROM analytics.source_health": `{` +
			`"source": "Example.org", "state": "registered", "failures": 0, "needs_attention": false, ` +
			`"completed_at": null, "feeds": 1}`,
		"SELECT organization_name, status, api_keys, feeds, destinations, enabled_destinations, deliveries, " +
			"pending, waiting, retrying, delivering, failed FROM analytics.organizations": `{` +
			`"organization_name": "Town hall", "status": "registered", "api_keys": 0, "feeds": 1, ` +
			`"destinations": 1, "enabled_destinations": 1, "deliveries": 4, "pending": 1, ` +
			`"waiting": 1, "retrying": 0, "delivering": 0, "failed": 1}`,
		"SELECT * FROM analytics.destinations": `{` + of + `, "status": "enabled", "created_at": "` + day +
			`T12:00:00+00:00", "consecutive_failures": 1, "streak_started_at": "` + day +
			`T12:00:00.03+00:00", "last_success_at": "` + day + `T12:00:00.02+00:00", "last_failure_at": "` + day +
			`T12:00:00.03+00:00", "pending": 1, "waiting": 1, "retrying": 0, "delivering": 0, "succeeded": 2, ` +
			`"failed": 1, ` + external + `}`,
	} {
		got := rows(t, pool, query)
		assert.True(t, len(got) == 1 && sameJSON(t, got[0], want), "%s:\n%s\nwant\n%s", query, strings.Join(got, "\n"), want)
	}
	for _, view := range views {
		shown := strings.Join(rows(t, pool, "SELECT * FROM analytics."+view), "\n")
		assert.True(t, !strings.Contains(shown, "hunter2") && !strings.Contains(shown, "sealed") &&
			!strings.Contains(shown, "capability"), "%s shows what must not be seen: %s", view, shown)
	}
}

func sameJSON(t *testing.T, a, b string) bool {
	t.Helper()
	var x, y any
	must.OK(t, errors.Join(json.Unmarshal([]byte(a), &x), json.Unmarshal([]byte(b), &y)))
	return cmp.Equal(x, y)
}

// as runs a statement with the rights of a role, in a transaction that is rolled back.
func as(t *testing.T, pool *pgxpool.Pool, role, statement string) error {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	must.OK(t, err)
	defer func() { _ = tx.Rollback(context.WithoutCancel(t.Context())) }()
	must.Get(tx.Exec(t.Context(), "SET LOCAL ROLE "+role))(t)
	_, err = tx.Exec(t.Context(), statement)
	return err
}

func denied(err error) bool {
	var refused *pgconn.PgError
	return errors.As(err, &refused) && refused.Code == "42501"
}

func TestAnalystsReadTheViewsAndNothingElse(t *testing.T) {
	t.Parallel()
	pool := made(t)
	for _, view := range views {
		assert.Is(t, as(t, pool, analytics.Role, "SELECT * FROM analytics."+view), nil, "%s", view)
	}
	var tables []string
	for _, line := range rows(t, pool, `SELECT table_schema || '.' || table_name AS name FROM information_schema.tables
		WHERE table_schema NOT IN ('pg_catalog', 'information_schema', 'analytics')`) {
		var table struct{ Name string }
		must.OK(t, json.Unmarshal([]byte(line), &table))
		tables = append(tables, table.Name)
	}
	must.True(t, strings.Contains(strings.Join(tables, " "), "deliveries.deliveries") && len(tables) >= 15,
		"tables: %v", tables)
	for _, table := range tables {
		err := as(t, pool, analytics.Role, "SELECT FROM "+table)
		assert.True(t, denied(err), "%s: %v, want denied", table, err)
	}
	for _, statement := range []string{
		"CREATE TABLE analytics.mine (x int)", "CREATE TABLE public.mine (x int)", "CREATE SCHEMA mine",
		"DROP VIEW analytics.feedback",
		"DELETE FROM analytics.feedback", "UPDATE analytics.feedback SET rating = 'positive'",
		"DELETE FROM deliveries.deliveries",
		"CREATE ROLE friend",
	} {
		if err := as(t, pool, analytics.Role, statement); err == nil ||
			!denied(err) && !strings.Contains(err.Error(), "cannot") {
			t.Errorf("%s: %v, want denied", statement, err)
		}
	}
	assert.Equal(t, rows(t, pool,
		"SELECT rolcanlogin OR rolsuper OR rolcreaterole OR rolcreatedb OR rolreplication OR rolbypassrls AS more "+
			"FROM pg_roles WHERE rolname = '"+analytics.Role+"'")[0], `{"more": false}`, "the role may more")
	suspicious := rows(t, pool, `SELECT table_name, column_name FROM information_schema.columns
		WHERE table_schema = 'analytics'
		AND (column_name ~ 'secret|header|body|url|hash|seal|error|token' OR data_type = 'bytea')`)
	assert.True(t, len(suspicious) == 0, "columns that look like what must not be seen: %v", suspicious)
}

func TestEverythingIsDocumented(t *testing.T) {
	t.Parallel()
	pool := made(t)
	assert.Equal(t, len(rows(t, pool, "SELECT relname FROM pg_class WHERE relnamespace = 'analytics'::regnamespace "+
		"ORDER BY relname")), len(views), "views … want %v", views)
	silent := rows(t, pool, `SELECT c.relname, a.attname FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid
		AND a.attnum > 0
		WHERE c.relnamespace = 'analytics'::regnamespace AND (col_description(c.oid, a.attnum) IS NULL
		OR obj_description(c.oid, 'pg_class') IS NULL)`)
	assert.True(t, len(silent) == 0, "without a comment: %v", silent)
}

const oids = "SELECT relname, oid::bigint FROM pg_class WHERE relnamespace = 'analytics'::regnamespace ORDER BY relname"

func TestManyAtOnceAndAgain(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t, readModels()...)
	log := slog.New(slog.DiscardHandler)
	var starting sync.WaitGroup
	for range 8 {
		starting.Go(func() {
			assert.OK(t, analytics.Ensure(t.Context(), pool, log))
		})
	}
	starting.Wait()
	before := rows(t, pool, oids)
	ensure(t, pool)
	if diff := cmp.Diff(before, rows(t, pool, oids)); diff != "" || len(before) != len(views) {
		t.Errorf("existing views were made again (-before +after):\n%s", diff)
	}
}

func TestReadModelsThatAreNotThereYetAreWaitedFor(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	ensure(t, pool)
	for i, want := range []int{0, 0, 0, 1, 6, 6, 15, 17} { // one read model after the other
		p := readModels()[i]
		must.OK(t, projections.EnsureSchema(t.Context(), pool, p))
		assert.Equal(t, len(rows(t, pool, oids)), want, "with %s", p.Name)
	}
	must.OK(t, as(t, pool, analytics.Role, "SELECT FROM analytics.feedback"))
}

// An event is absent since its last source ceased to show it, and not while one source shows it.
func TestSinceWhenAnEventIsNotOnShow(t *testing.T) {
	t.Parallel()
	log := projecttest.New(t, readModels()...)
	pool := log.Database
	ensure(t, pool)
	other := uuid.NewSHA1(page, []byte("other"))
	id := uuid.NewSHA1(page, []byte("shown by two"))
	projecttest.Stream(log, feed.Aggregate, feedA, noon)(
		feed.Created{
			Organization: org,
			Settings:     feed.Settings{Name: "Concerts"},
			Enabled:      true,
			At:           noon,
		},
		feed.SourceAttached{
			AssociationID: uuid.New(),
			SourceID:      page,
			SourceType:    source.TypeSite,
			At:            noon,
		})
	record := projecttest.Stream(log, happening.Aggregate, id, noon)
	projecttest.Stream(log, item.Aggregate, item.ID(feedA, id), noon)(item.Added{
		FeedID:      feedA,
		HappeningID: id,
		SourceID:    page,
		At:          noon,
	})
	shown := happening.Details{Title: "A", Time: happening.Time{Timezone: "Europe/Rome"}}
	for hour, tt := range []struct {
		event happening.Event
		want  string
	}{
		{happening.Observed{
			SourceID: page,
			Key:      "k",
			Details:  shown,
			At:       noon,
		}, "null"},
		{happening.Observed{
			SourceID: other,
			Key:      "k",
			Details:  shown,
			At:       noon,
		}, "null"},
		{happening.WentStale{SourceID: page, At: noon.Add(time.Hour)}, "null"},
		{happening.WentStale{SourceID: other, At: noon.Add(2 * time.Hour)}, `"` + day + `T14:00:00+00:00"`},
		{happening.Observed{
			SourceID: page,
			Key:      "k",
			Details:  shown,
			At:       noon.Add(3 * time.Hour),
		}, "null"},
	} {
		record(tt.event)
		log.Project()
		got := rows(t, pool, "SELECT title, timezone, stale_since FROM analytics.items")
		want := `{"title": "A", "timezone": "Europe/Rome", "stale_since": ` + tt.want + `}`
		assert.True(t, len(got) == 1 && sameJSON(t, got[0], want), "after %d: %q, want %s", hour, got, want)
	}
}
