package console_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// maxPageBytes is the maximum size of a page, whatever the history.
const maxPageBytes = 100_000

// BenchmarkPages requests every page of both consoles, with every filter and at both ends of each list, with a
// history of a million deliveries. It reports the bytes of the page, milliseconds until it is complete, and processor
// time of this process and of Postgres.
func BenchmarkPages(b *testing.B) {
	s := openAlone(b).scene(b)
	auditor, _ := s.auditor(b)
	began := time.Now()
	s.remember(b)
	b.Logf("a million deliveries were made up in %s", time.Since(began).Round(time.Second))
	usage := pgtest.UsageOf(b.Context(), b, s.Pool)
	for _, side := range []struct {
		name    string
		handler http.Handler
		cookie  string
		pages   []string
	}{
		{"organization", s.handler, s.signIn(b, s.key).cookie, s.organizationsPages("/console")},
		{"operator", s.admin, s.operator(b).cookie, append(s.organizationsPages("/console/organizations/{org}")[:1],
			s.operatorsPages()...)},
		{"auditor", s.admin, auditor.cookie, []string{"/console/record", "/console/record/{works}", "/console/system"}},
	} {
		server := httptest.NewServer(side.handler)
		b.Cleanup(server.Close)
		for _, path := range side.pages {
			b.Run(side.name+"="+moments.ReplaceAllString(strings.TrimPrefix(path, "/console"), "…"), func(b *testing.B) {
				askForPage(b, usage, server.URL+s.at(b, path), side.cookie)
			})
		}
	}
}

// moments matches the times in the names of pages, which change daily.
var moments = regexp.MustCompile(`20\d\d-[^&]*`)

// askForPage requests a page repeatedly, and reports its cost.
func askForPage(b *testing.B, usage pgtest.Usage, address, cookie string) {
	b.Helper()
	took, size := make([]time.Duration, 0, b.N), 0
	process, postgres := usage.Process(), usage.Postgres()
	for b.Loop() {
		began := time.Now()
		r := must.Get(http.NewRequestWithContext(b.Context(), http.MethodGet, address, http.NoBody))(b)
		for _, name := range []string{"carillon_console", "carillon_operators"} { // only one of them is set
			r.AddCookie(&http.Cookie{Name: name, Value: cookie}) //nolint:gosec // the browser's side of it
		}
		r.Header.Set("Accept", "text/html")
		status, body := apitest.Ask(b, http.DefaultClient, r)
		took = append(took, time.Since(began))
		if size = len(body); status != http.StatusOK || size > maxPageBytes {
			b.Fatalf("%s: %d, %d bytes\n%.2000s", address, status, size, body)
		}
	}
	slices.Sort(took)
	ms := func(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(size), "bytes")
	b.ReportMetric(ms(took[len(took)/2]), "median-ms")
	b.ReportMetric(ms(took[len(took)*99/100]), "p99-ms")
	b.ReportMetric(ms(usage.Process()-process)/float64(len(took)), "own-cpu-ms")
	b.ReportMetric(ms(usage.Postgres()-postgres)/float64(len(took)), "postgres-cpu-ms")
}

// organizationsPages returns the pages below a base.
func (s *scene) organizationsPages(base string) []string {
	now := time.Now().UTC()
	since, until := now.AddDate(0, 0, -9).Format("2006-01-02T15:04"), now.AddDate(0, 0, -2).Format("2006-01-02T15:04")
	oldest := url.QueryEscape(now.AddDate(0, 0, -27).Format(time.RFC3339Nano) + "~" + uuid.Max.String())
	pages := []string{
		"/", "/?range=hour", "/?range=month", "/destinations", "/destinations?page=4", "/destinations/{works}",
		"/destinations/{works}?range=month",
		"/destinations/{works}?moment=3", "/destinations/{fails}/replay?status=failed&since=" + since,
		"/destinations/{works}/edit", "/destinations/{works}/rotate",
		"/deliveries/{delivered}", "/deliveries/{failed}", "/feeds", "/feeds/{feed}", "/feeds/{feed}?page=7",
		"/feeds/{feed}/items/{item}",
		"/events", "/events/{event}", "/events/{event}?who=none&page=3", "/search?q=organ", "/search?q=hook",
	}
	for _, filter := range []string{"type=event.*", "type=news.item.added", "feed={feed}", "since=" + since + "&until=" +
		until, "q=subject/4711", "before=" + oldest, "type=event.*&before=" + oldest} {
		pages = append(pages, "/events?"+filter)
	}
	filters := []string{"", "type=news.*", "type=event.item.added", "feed={feed}", "since=" + since, "until=" + until,
		"since=" + since + "&until=" + until + "&type=event.*&feed={feed}"}
	for _, status := range []string{"pending", "delivering", "succeeded", "failed", "superseded", "discarded"} {
		filters = append(filters, "status="+status, "status="+status+"&type=event.*&since="+since)
	}
	for _, filter := range filters {
		pages = append(pages, "/deliveries?"+filter, "/deliveries?before="+oldest+"&"+filter,
			"/destinations/{works}/deliveries?"+filter,
			"/destinations/{works}/deliveries?page=1500&"+filter, "/destinations/{fails}/deliveries?"+filter)
	}
	for i := range pages {
		pages[i] = base + strings.TrimSuffix(pages[i], "?")
	}
	return pages
}

func (s *scene) operatorsPages() []string {
	return []string{
		"/console/", "/console/organizations", "/console/organizations?page=2", "/console/organizations?q=town",
		"/console/sources", "/console/sources?page=20",
		"/console/sources?q=example&type=site", "/console/sources?state=ok", "/console/sources/{source}",
		"/console/sources/try", "/console/record", "/console/record?page=6",
		"/console/record?q=hook", "/console/record?status=deleted", "/console/record?status=there&organization={org}",
		"/console/record/{works}", "/console/system",
	}
}

// remember fills the read models by SQL: a million deliveries of a month, of which the scene's organization has seven
// in ten, their rollups, 100,000 publications, 100 organizations, 300 destinations, 1,000 sources, and a month of 400
// items in the scene's feed. The event store has none of them.
func (s *scene) remember(b *testing.B) {
	b.Helper()
	s.StopReadModels()
	s.names["org"] = s.org.String()
	for i, statement := range []string{
		`CREATE TEMPORARY TABLE known AS SELECT * FROM destinations.destinations`,
		`INSERT INTO organizations.organizations (id, name, created_at) SELECT gen_random_uuid(), 'Town ' || i,
			now() - i * interval '1 hour' FROM generate_series(2, 100) i`,
		`INSERT INTO destinations.destinations
			SELECT gen_random_uuid(), CASE WHEN i <= 200 THEN $1 ELSE (SELECT id FROM organizations.organizations
			ORDER BY id OFFSET i % 100 LIMIT 1) END,
				'hook/' || i, 'Hook ' || i, 'https://hooks.example.org/' || i, NULL, NULL, '{}',
				CASE WHEN i % 20 = 0 THEN 'auto_disabled' ELSE 'enabled' END,
				CASE WHEN i % 20 = 0 THEN 'too many failures' END, now() - interval '31 days' + i * interval '1 minute', now(), 0
				FROM generate_series(1, 300) i`,
		`INSERT INTO destinations.secrets SELECT d.id, gen_random_uuid(), s.sealed, d.created_at, NULL, 0
			FROM destinations.destinations d, (SELECT * FROM destinations.secrets LIMIT 1) s WHERE d.id NOT IN (SELECT id
			FROM known)`,
		`INSERT INTO subscriptions.subscriptions SELECT gen_random_uuid(), d.organization, d.id, NULL, '{*}', 'all', NULL,
			'[]', true, d.created_at, d.created_at, 0
			FROM destinations.destinations d WHERE d.id NOT IN (SELECT id FROM known)`,
		`INSERT INTO audit.entries SELECT d.id, n, d.organization, CASE n WHEN 0 THEN 'destination.created.v1'
			ELSE 'destination.revised.v1' END,
				d.created_at + n * interval '1 day', d.created_at + n * interval '1 day', gen_random_uuid(), 0, 0, 'key:4f1c02aa',
				NULL, NULL, NULL,
				jsonb_build_object('name', d.name, 'url', d.shown_url) || CASE n WHEN 0 THEN '{"status": "enabled"}'
				ELSE '{}' END::jsonb
			FROM destinations.destinations d, generate_series(0, 20) n WHERE d.id NOT IN (SELECT id FROM known)`,
		`INSERT INTO health.health (destination, consecutive_failures, streak_started_at, last_success_at, last_failure_at,
			last_error_message)
			SELECT d.id, CASE WHEN d.status <> 'enabled' THEN 120
			ELSE 0 END, CASE WHEN d.status <> 'enabled' THEN now() - interval '2 hours' END, now(), NULL,
				CASE WHEN d.status <> 'enabled' THEN 'the endpoint answered 503' END FROM destinations.destinations d
				WHERE d.id NOT IN (SELECT id FROM known)`,
		`INSERT INTO deliveries.deliveries (id, organization, destination, created_at, completed_at, revision, attempts,
			automatic, event_id, event_time, status,
				unsuccessful, type, source, subject, feed_id, feed_type, subscriptions, attempted_at, duration_micros,
				response_status, trigger, failure_reason)
			SELECT gen_random_uuid(), d.organization, d.id, t, CASE WHEN status <> 'pending' THEN t END, 0, 1, 1,
			gen_random_uuid(), t, status, replace(nullif(status, 'succeeded'), 'pending', 'retrying'),
				CASE WHEN i % 3 = 0 THEN 'event.item.added' ELSE 'news.item.added' END, '/feeds/x', 'subject/' || i,
				CASE WHEN i % 3 = 0 THEN $2 END, CASE WHEN i % 3 = 0 THEN 'event' END, '{}',
				t, 2000 + i % 90000, CASE WHEN status = 'failed' THEN 503
				ELSE 204 END, 'automatic', CASE WHEN status = 'failed' THEN 'http_status' END
			FROM generate_series(1, 1000000) i, LATERAL (SELECT now() - i * interval '2.5 seconds' - interval '1 minute',
			CASE WHEN i <= 3000 THEN 'pending' WHEN i % 50 = 0 THEN 'failed'
					WHEN i % 501 = 0 THEN 'superseded' WHEN i % 503 = 0 THEN 'discarded' ELSE 'succeeded' END) AS at (t, status),
				LATERAL (SELECT CASE WHEN i % 10 < 2 THEN 1 WHEN i % 10 = 2 THEN 2 ELSE 3 + (i / 10) % 300 END) AS which (n)
			JOIN (SELECT id, organization, row_number() OVER (ORDER BY id <> $3, id <> $4, external_id) AS n
			FROM destinations.destinations) d USING (n)`,
		`INSERT INTO deliveries.due SELECT id, destination, created_at, created_at, NULL, NULL FROM deliveries.deliveries
			WHERE status = 'pending' ON CONFLICT DO NOTHING`,
		`INSERT INTO deliveries.tallies SELECT destination, (created_at AT TIME ZONE 'UTC')::date, type,
			coalesce(feed_id, '00000000-0000-0000-0000-000000000000'), count(*),
				count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed'),
				count(*) FILTER (WHERE status = 'superseded'), count(*) FILTER (WHERE status = 'discarded')
			FROM deliveries.deliveries GROUP BY 1, 2, 3, 4
			ON CONFLICT (destination, day, type, feed_id) DO UPDATE SET total = excluded.total, succeeded = excluded.succeeded,
			failed = excluded.failed, superseded = excluded.superseded, discarded = excluded.discarded`,
		`DELETE FROM deliveries.outcomes`,
		`INSERT INTO deliveries.outcomes SELECT d.organization, t.day, sum(total), sum(succeeded), sum(failed),
			sum(superseded), sum(discarded)
			FROM deliveries.tallies t JOIN destinations.destinations d ON d.id = t.destination GROUP BY 1, 2`,
		`INSERT INTO health.answers
			SELECT scope, minutes, to_timestamp(floor(extract(epoch FROM attempted_at) / (60 * minutes)) * 60 * minutes),
			4 + (duration_micros / 9000)::int,
				type, coalesce(failure_reason, ''), count(*)
			FROM deliveries.deliveries, unnest(ARRAY[5, 60]) minutes, unnest(ARRAY[organization, destination]) scope
			WHERE status IN ('succeeded', 'failed') GROUP BY 1, 2, 3, 4, 5, 6
			ON CONFLICT DO NOTHING`,
		`INSERT INTO publications.publications SELECT gen_random_uuid(), $1, CASE WHEN i % 3 = 0 THEN 'event.item.added'
			ELSE 'news.item.added' END, '/feeds/x', 'subject/' || i,
				t, CASE WHEN i % 3 = 0 THEN 'event' END, CASE WHEN i % 3 = 0 THEN $2 END, t,
				convert_to('{"id":"' || i || '","title":"' || repeat('word ', 100) || '"}', 'UTF8')
			FROM generate_series(1, 100000) i, LATERAL (SELECT now() - i * interval '25 seconds') AS at (t)`,
		`INSERT INTO sources.sources
			SELECT (jsonb_populate_record(NULL::sources.sources, to_jsonb(s) || jsonb_build_object('id', gen_random_uuid(),
			'url', 'https://' || i || '.example.org/programme', 'state', CASE WHEN i % 9 = 0 THEN 'failing' ELSE 'ok' END))).*
			FROM (SELECT * FROM sources.sources LIMIT 1) s, generate_series(1, 1000) i`,
		`INSERT INTO items.items
			SELECT (jsonb_populate_record(NULL::items.items, to_jsonb(i) || jsonb_build_object('id', md5('item' || n)::uuid,
			'happening_id', gen_random_uuid()))).*
			FROM (SELECT * FROM items.items ORDER BY id LIMIT 1) i, generate_series(1, 400) n`,
		`INSERT INTO items.occurrences SELECT md5('item' || n)::uuid, 0, o.feed_id, o.starts_at + n % 14 * interval '1 day',
			'-infinity', o.instance_status, o.instance_ends, o.ends_at + n % 14 * interval '1 day', o.long
			FROM (SELECT * FROM items.occurrences ORDER BY item_id, number LIMIT 1) o, generate_series(1, 400) n`,
		`UPDATE items.feeds SET version = version + 1`,
	} {
		for n, value := range []string{s.names["org"], s.names["feed"], s.names["works"], s.names["fails"]} {
			if strings.Contains(statement, fmt.Sprintf("$%d", n+1)) {
				statement = strings.ReplaceAll(statement, fmt.Sprintf("$%d", n+1), "'"+value+"'::uuid")
			}
		}
		_, err := s.Pool.Exec(b.Context(), statement)
		must.True(b, err == nil, "statement %d: %v", i, err)
	}
	must.Get(s.Pool.Exec(b.Context(), "VACUUM ANALYZE"))(b)
	var total int
	if err := s.Pool.QueryRow(b.Context(), "SELECT count(*) FROM deliveries.deliveries").Scan(&total); err != nil ||
		total < 1_000_000 {
		b.Fatalf("%d deliveries, %v", total, err)
	}
	s.names["event"] = s.sentToAll(b).String()
}

// sentToAll returns an event that half of the organization's destinations got.
func (s *scene) sentToAll(b *testing.B) uuid.UUID {
	b.Helper()
	event := uuid.MustParse(s.names["event"])
	rows := must.Get(s.Pool.Query(b.Context(),
		"SELECT id FROM destinations.destinations WHERE organization = $1 ORDER BY "+"id LIMIT 100", s.org))(b)
	made := must.Get(pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]))(b)
	s.copyDelivery(b, uuid.MustParse(s.names["delivered"]), event, made)
	return event
}
