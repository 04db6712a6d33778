package deliveries_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/projections"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

// BenchmarkRebuild applies a history of succeeded deliveries in full batches.
//
//	fan-out  deliveries of each published event
//	lag      events between the scheduling of a delivery and its attempt: within a batch, or beyond it
func BenchmarkRebuild(b *testing.B) {
	for _, fanOut := range []int{1, 10} {
		for _, lag := range []int{20, 2000} {
			b.Run(fmt.Sprintf("fan-out=%d/lag=%d", fanOut, lag), func(b *testing.B) {
				const size = 40_000
				log := projecttest.New(b, deliveries.ReadModel)
				steadyHistory(log, size, fanOut, lag)
				for b.Loop() {
					log.ProjectInBatches(deliveries.ReadModel, projections.MaxBatch)
				}
				b.ReportMetric(float64(size)*float64(b.N)/b.Elapsed().Seconds(), "events/s")
				made := size - size/(fanOut+1)
				b.ReportMetric(float64(made)*float64(b.N)/b.Elapsed().Seconds(), "deliveries/s")
			})
		}
	}
}

// BenchmarkOnHistory applies new deliveries to a table with a million. It should be no slower than on an empty one.
func BenchmarkOnHistory(b *testing.B) {
	for _, done := range []int{0, 1_000_000} {
		b.Run(fmt.Sprintf("history=%d", done), func(b *testing.B) {
			const size = 20_000
			h := newHistory(b)
			grow(h, done, 0)
			var elapsed time.Duration
			for b.Loop() {
				b.StopTimer()
				before := len(h.Events())
				steadyHistory(h.Log, before+size, 10, 2000)
				b.StartTimer()
				started := time.Now()
				h.ProjectOn(deliveries.ReadModel, projections.MaxBatch)
				elapsed += time.Since(started)
			}
			b.ReportMetric(float64(size)*float64(b.N)/elapsed.Seconds(), "events/s")
		})
	}
}

// steadyHistory records events of 10 destinations (or as many as the fan-out), each attempted with success.
func steadyHistory(log *projecttest.Log, size, fanOut, lag int) { // until the log has that size
	destinations, subscription, feed := make([]uuid.UUID, max(10, fanOut)), uuid.New(), uuid.New()
	for i := range destinations {
		destinations[i] = uuid.New()
	}
	type sent struct{ id, destination uuid.UUID }
	var (
		waiting []sent
		at      = noon
	)
	for published := 0; len(log.Events()) < size; published++ {
		at = at.Add(100 * time.Microsecond)
		if len(waiting) >= lag || len(log.Events())+len(waiting) >= size {
			next := waiting[0]
			waiting = waiting[1:]
			projecttest.Stream(log, delivery.Aggregate, next.id, at)(delivery.Attempted{
				Organization: org,
				Destination:  next.destination,
				Number:       1,
				Trigger:      delivery.Automatic,
				Status:       delivery.StatusSucceeded,
				Outcome:      delivery.Outcome{ResponseStatus: 200, ResponseBody: make([]byte, 40), DurationMicros: 1800},
				At:           at,
			})
			continue
		}
		event := uuid.New()
		scheduled := dispatch.DeliveriesScheduled{
			Publication: event, At: at,
			Event: dispatch.Summary{
				Type:     "news.item.added",
				Source:   "https://example.org/feeds/city",
				Subject:  "item/" + event.String(),
				Time:     at,
				FeedType: "news",
				FeedID:   feed,
			},
		}
		for i := range fanOut {
			destination := destinations[(published+i)%len(destinations)]
			scheduled.Deliveries = append(scheduled.Deliveries, dispatch.Scheduled{
				Destination:   destination,
				Organization:  org,
				Subscriptions: []uuid.UUID{subscription},
				Worker:        1,
				LeasedUntil:   at.Add(time.Minute),
			})
			waiting = append(waiting, sent{dispatch.DeliveryID(event, destination), destination})
		}
		projecttest.Stream(log, dispatch.Aggregate, event, at)(scheduled)
	}
}

// BenchmarkClaim claims 200 deliveries and gives them back, with a history of 200,000 deliveries and 100,000 due to 500
// destinations, 100 of which are disabled; alone, and beside 5,000 destinations that have a retry waiting each.
func BenchmarkClaim(b *testing.B) {
	for _, waiting := range []int{0, 5_000} {
		b.Run(fmt.Sprintf("waiting=%d", waiting), func(b *testing.B) {
			h := newHistory(b)
			grow(h, 0, 100_000)
			h.wait(waiting)
			claimer, ask := deliveries.NewClaimer(h.Database, me), deliveries.Ask{PerDestination: 50, Limit: 200, Lease: lease}
			b.Run("claim", func(b *testing.B) {
				for b.Loop() {
					seen, err := deliveries.Look(b.Context(), h.Database, &pgx.Batch{}, noon)
					if err != nil {
						b.Fatal(err)
					}
					claimed, err := claimer.Claim(b.Context(), ask, seen)
					if err != nil || len(claimed) != 200 {
						b.Fatalf("claimed %d (%v), want 200", len(claimed), err)
					}
					ids := make([]uuid.UUID, len(claimed))
					for i := range claimed {
						ids[i] = claimed[i].ID
					}
					b.StopTimer()
					if err := deliveries.Release(b.Context(), h.Database, me, ids); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
				}
			})
			b.Run("nothing-due", func(b *testing.B) {
				for b.Loop() {
					if _, err := deliveries.Look(b.Context(), h.Database, &pgx.Batch{}, noon.AddDate(-1, 0, 0)); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

// wait makes destinations that have a delivery waiting each, the first of them an hour after noon.
func (h history) wait(destinations int) {
	h.t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO destinations.destinations (id, organization, name, shown_url, settings,
			status, created_at, updated_at, revision)
			SELECT md5('waits ' || n)::uuid, '11111111-1111-4111-8111-111111111111', 'CRM', 'https://example.org/hook', '{}',
			'enabled', now(), now(), 0
			FROM generate_series(1, %d) n`, destinations),
		fmt.Sprintf(`INSERT INTO deliveries.due SELECT md5('waiting ' || n)::uuid, md5('waits ' || n)::uuid, at, at
			FROM generate_series(1, %d) n, LATERAL (SELECT '2026-11-21 12:59:59Z'::timestamptz + n * interval '1 s' AS at)
			times`, destinations),
		"VACUUM ANALYZE deliveries.due, destinations.destinations",
	} {
		if _, err := h.Database.Exec(h.t.Context(), sql); err != nil {
			h.t.Fatalf("%v: %s", err, sql)
		}
	}
}

// grow fills the read models with deliveries that have succeeded, in the month before noon, and with due ones.
func grow(h history, done, due int) {
	h.t.Helper()
	for _, sql := range []string{
		`INSERT INTO destinations.destinations (id, organization, name, shown_url, settings, status,
			created_at, updated_at, revision)
			SELECT md5('destination ' || n)::uuid, '11111111-1111-4111-8111-111111111111', 'CRM', 'https://example.org/hook',
			'{}', CASE WHEN n % 5 = 0 THEN 'disabled' ELSE 'enabled' END, now(), now(), 0 FROM generate_series(1, 500) n`,
		`INSERT INTO destinations.secrets SELECT id, id, 'sealed', now(), NULL, 0 FROM destinations.destinations`,
		fmt.Sprintf(`INSERT INTO publications.publications SELECT md5('event ' || n)::uuid, NULL, 'news.item.added',
			'https://example.org/feeds/city', 'item/' || n,
			now(), 'news', '66666666-6666-4666-8666-666666666666', now(), repeat('x', 300)::bytea
			FROM generate_series(1, %d) n`, due),
		fmt.Sprintf(`INSERT INTO deliveries.deliveries SELECT md5('delivery ' || n)::uuid,
			'11111111-1111-4111-8111-111111111111', md5('destination ' || 1 + n %% 500)::uuid,
			'2026-11-21 12:00Z'::timestamptz - n * interval '2.5 s', '2026-11-21 12:00Z', 0, 1, 1, md5('event ' || n)::uuid,
			'2026-11-21 12:00Z',
			'66666666-6666-4666-8666-666666666666', 'news', CASE WHEN n <= %d THEN 'pending' ELSE 'succeeded' END, NULL,
			'news.item.added', 'https://example.org/feeds/city', 'item/' || n,
			NULL, '{55555555-5555-4555-8555-555555555555}', '2026-11-21 12:00Z', 1500, NULL, 200, 'automatic', NULL, NULL,
			repeat('x', 60)::bytea
			FROM generate_series(1, %d) n`, due, done+due),
		`INSERT INTO deliveries.due SELECT id, destination, created_at, created_at FROM deliveries.deliveries
			WHERE status = 'pending'`,
		`INSERT INTO deliveries.tallies SELECT destination, (created_at AT TIME ZONE 'UTC')::date, type, feed_id, count(*),
			count(*) FILTER (WHERE status = 'succeeded'), 0, 0, 0
			FROM deliveries.deliveries GROUP BY 1, 2, 3, 4`,
		"VACUUM ANALYZE", "CHECKPOINT",
	} {
		if _, err := h.Database.Exec(h.t.Context(), sql); err != nil {
			h.t.Fatalf("%v: %s", err, sql)
		}
	}
}
