package analytics_test

import (
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"carillon/eventstore/storetest/must"
	"carillon/projections/analytics"
	"carillon/projections/projecttest"
)

// million makes a history of 90 days: a million deliveries to ten destinations, one in 50 of which failed once.
const million = `
	INSERT INTO organizations.organizations (id, name, created_at)
		VALUES (md5('o')::uuid, 'Town hall', now());
	INSERT INTO destinations.destinations (id, organization, name, shown_url, settings, status, created_at,
			updated_at, revision)
		SELECT md5('d' || n)::uuid, md5('o')::uuid, 'Shop ' || n, 'https://example.org/', '{}', 'enabled', now(), now(), 0
		FROM generate_series(0, 9) n;
	CREATE TEMPORARY TABLE made AS SELECT n, md5('x' || n)::uuid AS id, md5('d' || n % 10)::uuid AS destination,
		now() - (1000000 - n) * interval '7.7 s' AS at, n % 50 = 0 AS again,
		CASE n % 4 WHEN 0 THEN 'news.item.updated' ELSE 'news.item.added' END AS type FROM generate_series(1, 1000000) n;
	INSERT INTO publications.publications (id, type, source, time, published_at, data, changed_sequence)
		SELECT md5('e' || n)::uuid, type, '/', at, at, '{}', n FROM made;
	INSERT INTO deliveries.deliveries (id, organization, destination, created_at, completed_at, revision, attempts,
			automatic, event_id, event_time, feed_id, feed_type, status, type, source, subscriptions,
			attempted_at, duration_micros,
			response_status, trigger, sequence, changed_sequence)
		SELECT id, md5('o')::uuid, destination, at, at + interval '1 s', 1, CASE WHEN again THEN 2 ELSE 1 END, 1,
			md5('e' || n)::uuid, at, md5('f' || n % 3)::uuid, 'news', 'succeeded', type, '/', '{}', at + interval '1 s',
			1000 + n % 90000, 200,
			'automatic', n, n FROM made;
	INSERT INTO deliveries.earlier_attempts
		SELECT id, 1, NULL, 'automatic', 500, NULL, NULL, 'answered 500', 'http_status', at, 5000, n FROM made WHERE again;
	INSERT INTO deliveries.tallies SELECT destination, (at AT TIME ZONE 'UTC')::date, type, md5('f' || n % 3)::uuid,
		count(*), count(*), 0, 0, 0 FROM made GROUP BY 1, 2, 3, 4`

// BenchmarkQuestions asks what the documentation asks, and one day of each view that has days, of a million deliveries.
func BenchmarkQuestions(b *testing.B) {
	log := projecttest.New(b, readModels()...)
	ctx := b.Context()
	for _, sql := range []string{million, "VACUUM ANALYZE"} {
		must.Get(log.Database.Exec(ctx, sql))(b)
	}
	must.OK(b, analytics.Ensure(ctx, log.Database, nil))
	text := must.Get(os.ReadFile("../../docs/use/analytics.md"))(b)
	questions := map[string]string{}
	for _, found := range question.FindAllStringSubmatch(string(text), -1) {
		if name := strings.Fields(found[1]); strings.Contains(found[1], "analytics.") {
			questions[strings.Join(name[1:5], " ")] = found[1]
		}
	}
	for _, view := range []string{"deliveries_by_day", "destination_days", "latency_percentiles", "failures_by_reason"} {
		questions["day of "+view] = "SELECT * FROM analytics." + view + " WHERE day = (now() - interval '3 days')::date"
	}
	for view, column := range map[string]string{
		"events": "published_at", "deliveries": "created_at", "attempts": "delivery_created_at",
	} {
		questions["day of "+view] = "SELECT * FROM analytics." + view + " WHERE " + column +
			" BETWEEN now() - interval '4 days' AND now() - interval '3 days'"
	}
	questions["day of success_rates"] = "SELECT * FROM analytics.success_rates WHERE last_days = 1"
	for _, name := range slices.Sorted(maps.Keys(questions)) {
		sql := questions[name]
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				rows := must.Get(log.Database.Query(ctx, sql))(b)
				for rows.Next() { //nolint:revive // how long it takes is the question
				}
				if rows.Err() != nil {
					b.Fatal(rows.Err())
				}
			}
		})
	}
}
