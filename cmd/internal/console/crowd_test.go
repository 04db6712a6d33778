package console_test

import (
	"fmt"
	"net/http/httptest"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/dispatch"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// crowd adds destinations to the organization by SQL: the event store has none of them. One in 7 is disabled since
// before the events, one in 5 wants other types, one in 10 has no subscription, one in 11 was created an hour ago;
// one in 100 was deleted an hour ago. Each got a delivery on each of some days.
func (w *world) crowd(tb testing.TB, size, days int) {
	tb.Helper()
	w.StopReadModels()
	now := time.Now().UTC().Format(time.RFC3339Nano)
	const all = `(SELECT i, md5('crowd ' || i)::uuid AS id, CASE WHEN i % 11 = 0 THEN now() - interval '1 hour'
		ELSE now() - interval '40 days' END + i * interval '1 millisecond' AS made,
		i % 7 = 0 AS disabled, i % 100 = 0 AS deleted FROM generate_series(1, %[1]d) i) c`
	for _, statement := range []string{
		`INSERT INTO destinations.destinations SELECT c.id, $1, NULL, 'Crowd ' || i, 'https://hooks.example.org/' || i, NULL,
			NULL, '{}',
			CASE WHEN disabled THEN 'disabled' ELSE 'enabled' END, NULL, made, made, 2 FROM ` + all + ` WHERE NOT deleted`,
		`INSERT INTO subscriptions.subscriptions SELECT gen_random_uuid(), $1, c.id, NULL,
			CASE WHEN i % 5 = 0 THEN '{event.*}' ELSE '{*}' END::text[], 'all', NULL, '[]', true,
			made, made, 0 FROM ` + all + ` WHERE NOT deleted AND i % 10 <> 3`,
		`INSERT INTO audit.entries SELECT c.id, n, $1, type, made + n * interval '1 second', made + n * interval '1 second',
			gen_random_uuid(), 0, 0, 'key:test', NULL, NULL, NULL, detail::jsonb
			FROM ` + all + `
				CROSS JOIN LATERAL (VALUES (0, 'destination.created.v1',
				'{"status": "enabled", "url": "https://hooks.example.org/", "name": "Crowd ' || i || '"}'),
				(1, 'destination.revised.v1', '{"url": "https://hooks.example.org/", "name": "Crowd ' || i || '"}'),
				(2, 'destination.disabled.v1', '{"status": "disabled"}')) changes (n, type, detail)
			WHERE n < 2 OR disabled`,
		`INSERT INTO audit.entries SELECT c.id, 3, $1, 'destination.deleted.v1', now() - interval '1 hour',
			now() - interval '1 hour', gen_random_uuid(), 0, 0, 'key:test', NULL, NULL, NULL,
			'{"status": "deleted"}' FROM ` + all + ` WHERE deleted`,
		`INSERT INTO deliveries.deliveries (id, organization, destination, created_at, completed_at, revision, attempts,
			automatic, event_id, event_time, status,
				unsuccessful, type, source, subscriptions, attempted_at, duration_micros, response_status, trigger, failure_reason)
			SELECT gen_random_uuid(), $1, c.id, t, t, 0, 1, 1, gen_random_uuid(), t, status, nullif(status, 'succeeded'),
			'news.item.added', '/feeds/x', '{}', t, 2000, 204, 'automatic', NULL
			FROM ` + all + `, generate_series(1, %[2]d) day, LATERAL (SELECT now() - day * interval '1 day' + i * interval
				'1 millisecond', CASE WHEN (i + day) % 50 = 0 THEN 'failed' ELSE 'succeeded' END) AS at (t, status)
			WHERE NOT deleted`,
		`INSERT INTO deliveries.tallies SELECT destination, (created_at AT TIME ZONE 'UTC')::date, type,
			'00000000-0000-0000-0000-000000000000', count(*),
				count(*) FILTER (WHERE status = 'succeeded'), count(*) FILTER (WHERE status = 'failed'), 0, 0
				FROM deliveries.deliveries d GROUP BY 1, 2, 3 ON CONFLICT DO NOTHING`,
		"ANALYZE",
	} {
		statement = strings.NewReplacer("$1", "'"+w.org.String()+"'::uuid", "now()", "'"+now+"'::timestamptz").Replace(
			statement)
		if strings.Contains(statement, "%[1]d") {
			statement = strings.NewReplacer("%[1]d", fmt.Sprint(size), "%[2]d", fmt.Sprint(days)).Replace(statement)
		}
		_, err := w.Pool.Exec(tb.Context(), statement)
		must.True(tb, err == nil, "%v: %s", err, statement)
	}
}

// crowdGets delivers an event to the destinations of a crowd that can have got it.
func (w *world) crowdGets(tb testing.TB, event uuid.UUID) (got int) {
	tb.Helper()
	rows := must.Get(w.Pool.Query(tb.Context(), `SELECT DISTINCT d.id FROM destinations.destinations d
		JOIN subscriptions.subscriptions s ON s.destination = d.id
		WHERE d.organization = $1 AND d.status = 'enabled' AND s.event_types = '{*}'
		AND d.created_at < now() - interval '1 day'`, w.org))(tb)
	to := must.Get(pgx.CollectRows(rows, pgx.RowTo[uuid.UUID]))(tb)
	w.copyDelivery(tb, uuid.Nil, event, to)
	return len(to)
}

// copyDelivery makes deliveries of an event to some destinations like one that is there, or like any (uuid.Nil).
func (w *world) copyDelivery(tb testing.TB, like, event uuid.UUID, to []uuid.UUID) {
	tb.Helper()
	const copied = `organization, created_at, completed_at, revision, attempts, automatic, event_time, feed_id, feed_type,
		status, unsuccessful, type, source, subject, subscriptions, attempted_at, duration_micros, response_status, trigger,
		failure_reason`
	ids := make([]uuid.UUID, len(to))
	for i, id := range to {
		ids[i] = dispatch.DeliveryID(event, id)
	}
	must.Get(w.Pool.Exec(tb.Context(), "INSERT INTO deliveries.deliveries (id, destination, event_id, "+copied+
		") SELECT made.id, made.destination, $1, "+copied+` FROM (SELECT * FROM deliveries.deliveries ORDER BY id <> $4
		LIMIT 1) d, unnest($2::uuid[], $3::uuid[]) made (id, destination) ON CONFLICT DO NOTHING`, event, ids, to, like))(tb)
}

// publishedYesterday records an event of a day ago.
func (w *world) publishedYesterday(tb testing.TB) uuid.UUID {
	tb.Helper()
	id := uuid.New()
	must.Get(w.Pool.Exec(tb.Context(), `INSERT INTO publications.publications SELECT $1, $2, 'news.item.added',
		'/feeds/x', 'item/7', t, NULL, NULL, t, '{"id":"7","title":"Concert"}'
		FROM (SELECT now() - interval '1 day') AS at (t)`, id, w.org))(tb)
	return id
}

// rows matches the rows of a table about destinations of a crowd.
var rows = regexp.MustCompile(`(?s)<bdi>Crowd (\d+)</bdi>(.*?)</tr>`)

func TestCrowd(t *testing.T) {
	w := openAlone(t)
	const size = 330
	w.crowd(t, size, 1)
	w.whoGotAnEvent(t, size)
}

// whoGotAnEvent checks an event that many could have got: each page shows which of its destinations got it, which did
// not, and the totals.
func (w *world) whoGotAnEvent(t *testing.T, size int) {
	t.Helper()
	event := w.publishedYesterday(t)
	got := w.crowdGets(t, event)
	other := w.publishedYesterday(t)

	gotIt := func(i int) bool { return i%11 > 0 && i%7 > 0 && i%100 > 0 && i%10 != 3 && i%5 > 0 }
	var early, late []int
	for i := 1; i <= size; i++ {
		if i%11 == 0 {
			late = append(late, i) // created later
		} else {
			early = append(early, i)
		}
	}
	all := slices.Concat(early, late) // oldest first
	b := w.signIn(t, w.key)
	for _, c := range []struct {
		event uuid.UUID
		who   string
		want  func(i int) bool
		says  string
	}{
		{event, "", func(int) bool { return true }, fmt.Sprintf("All %d|Succeeded %d|No delivery %d", size, got, size-got)},
		{event, "succeeded", gotIt, fmt.Sprintf("Succeeded %d", got)},
		{event, "none", func(i int) bool { return !gotIt(i) }, fmt.Sprintf("No delivery %d", size-got)},
		{other, "succeeded", func(int) bool { return false }, fmt.Sprintf("Succeeded 0|No delivery %d|None.", size)},
	} {
		want := slices.DeleteFunc(slices.Clone(all), func(i int) bool { return !c.want(i) })
		for page := 1; page <= len(want)/50+1; page++ {
			shown := b.get(t, fmt.Sprintf("/console/events/%s?who=%s&page=%d", c.event, c.who, page)).expect(t, 200,
				strings.Split(c.says, "|")...)
			part := want[(page-1)*50 : min(page*50, len(want))]
			found := rows.FindAllStringSubmatch(shown.body, -1)
			must.Equal(t, len(found), len(part), "%q, page %d … rows", c.who, page)
			for n, i := range part {
				if found[n][1] != strconv.Itoa(i) || strings.Contains(found[n][2], "<td>204 ") != (c.event == event && gotIt(i)) {
					t.Errorf("%q, page %d, row %d: want Crowd %d, got it: %t, in %s", c.who, page, n, i, gotIt(i), found[n][0])
				}
			}
		}
	}
}

// BenchmarkPagesOfACrowd requests the pages about all destinations of an organization that has 10,000.
func BenchmarkPagesOfACrowd(b *testing.B) {
	w := openAlone(b)
	w.crowd(b, 10_000, 30)
	event := w.publishedYesterday(b)
	w.crowdGets(b, event)
	must.Get(w.Pool.Exec(b.Context(), "VACUUM ANALYZE"))(b)
	usage := pgtest.UsageOf(b.Context(), b, w.Pool)
	server := httptest.NewServer(w.handler)
	b.Cleanup(server.Close)
	cookie := w.signIn(b, w.key).cookie
	of := "/events/" + event.String()
	old := url.QueryEscape(time.Now().AddDate(0, 0, -15).UTC().Format(time.RFC3339Nano) + "~" + uuid.Max.String())
	for _, path := range []string{
		of, of + "?page=150", of + "?who=succeeded&page=3", of + "?who=none", "/deliveries", "/deliveries?status=failed",
		"/deliveries?status=succeeded", "/deliveries?type=news.*", "/deliveries?status=pending",
		"/deliveries?type=event.*", "/deliveries?status=succeeded&type=news.item.added",
		"/deliveries?status=succeeded&before=" + old,
	} {
		b.Run(strings.NewReplacer(of, "/event", old, "old").Replace(path), func(b *testing.B) {
			askForPage(b, usage, server.URL+"/console"+path, cookie)
		})
	}
}
