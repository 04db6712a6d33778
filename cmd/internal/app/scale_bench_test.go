package app_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
)

// BenchmarkFanOut: from publishing one event to its receipt by the last of a thousand destinations.
func BenchmarkFanOut(b *testing.B) {
	const destinations = 1000
	b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
		r := newRig(b, destinations)
		times := make([]time.Duration, 0, 5)
		b.ResetTimer()
		used := r.measure()
		for i := range min(b.N, cap(times)) {
			started := time.Now()
			if err := r.publish(b.Context(), uuid.New()); err != nil {
				b.Fatal(err)
			}
			r.receiver.await(b, (i+1)*destinations)
			times = append(times, time.Since(started))
		}
		b.StopTimer()
		used.report(len(times) * destinations)
		slices.Sort(times)
		b.ReportMetric(float64(times[len(times)/2].Microseconds())/1000, "median-ms")
	})
}

// await waits until so many different deliveries have come.
func (c *counter) await(b *testing.B, want int) {
	b.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(time.Millisecond) {
		c.mu.Lock()
		got := len(c.seen)
		c.mu.Unlock()
		if got >= want {
			return
		}
	}
	b.Fatalf("%d deliveries did not come", want)
}

// BenchmarkHistory: throughput with an empty history and with a million deliveries in it, by turns.
func BenchmarkHistory(b *testing.B) {
	for _, million := range []int{0, 1} {
		b.Run(fmt.Sprintf("deliveries=%d000000", million), func(b *testing.B) {
			r := newRig(b, 1)
			if million > 0 {
				remember(b, r.app.Queries.Pool, 1_000_000)
			}
			b.ResetTimer()
			started, used := time.Now(), r.measure()
			var group sync.WaitGroup
			work := make(chan struct{}, b.N)
			for range b.N {
				work <- struct{}{}
			}
			close(work)
			for range 64 {
				group.Go(func() {
					for range work {
						if err := r.publish(b.Context(), uuid.New()); err != nil {
							b.Errorf("publish: %v", err)
						}
					}
				})
			}
			group.Wait()
			r.recorded(million*1_000_000 + b.N)
			used.report(b.N)
			b.ReportMetric(float64(b.N)/time.Since(started).Seconds(), "delivered/s")
		})
	}
}

// remember fills the read model with succeeded deliveries of the last weeks, by SQL: the event store knows none of them.
func remember(b *testing.B, pool *pgxpool.Pool, n int) {
	b.Helper()
	if n == 0 {
		return
	}
	began := time.Now()
	// Five million are there in a fraction of the time where the indexes are made afterwards.
	var keys, indexes []string
	err := pool.QueryRow(context.Background(), `
		SELECT coalesce(array_agg(indexrelid::regclass::text) FILTER (WHERE NOT indisprimary), '{}'),
			array_agg(pg_get_indexdef(indexrelid)) FILTER (WHERE NOT indisprimary)
		FROM pg_index WHERE indrelid = 'deliveries.deliveries'::regclass`).Scan(&keys, &indexes)
	if err == nil {
		_, err = pool.Exec(context.Background(), "ALTER TABLE deliveries.deliveries DROP CONSTRAINT deliveries_pkey; DROP INDEX "+strings.Join(keys, ", "))
	}
	if err != nil {
		b.Fatal(err)
	}
	_, err = pool.Exec(context.Background(), `
		INSERT INTO deliveries.deliveries (id, organization, destination, created_at, completed_at, revision, attempts, automatic,
			event_id, event_time, status, type, source, subscriptions, attempted_at, duration_micros, response_status, trigger)
		SELECT gen_random_uuid(), d.organization, d.id, t, t, 0, 1, 1, gen_random_uuid(), t, 'succeeded', 'news.item.added', '/bench', '{}', t, 2000, 204, 'automatic'
		FROM (SELECT * FROM destinations.destinations ORDER BY created_at LIMIT 1) d, generate_series(1, $1) i,
			LATERAL (SELECT now() - i * interval '1 second') AS at (t)`, n)
	if err == nil {
		_, err = pool.Exec(context.Background(), "ALTER TABLE deliveries.deliveries ADD PRIMARY KEY (id); "+strings.Join(indexes, "; "))
	}
	if err == nil {
		_, err = pool.Exec(context.Background(), `
			INSERT INTO deliveries.tallies (destination, day, type, feed_id, total, succeeded, failed, superseded, discarded)
			SELECT destination, created_at::date, type, '00000000-0000-0000-0000-000000000000', count(*), count(*), 0, 0, 0 FROM deliveries.deliveries GROUP BY 1, 2, 3`)
	}
	if err == nil {
		_, err = pool.Exec(context.Background(), "VACUUM ANALYZE deliveries.deliveries")
	}
	if err != nil {
		b.Fatal(err)
	}
	b.Logf("%d deliveries were made up in %s", n, time.Since(began).Round(time.Second))
}

// BenchmarkOneHangs: from publish to receipt by 19 destinations while the twentieth answers, and while it hangs.
func BenchmarkOneHangs(b *testing.B) {
	const destinations, rate = 20, 30
	var alone time.Duration
	for _, hangs := range []bool{false, true} {
		b.Run(fmt.Sprintf("hangs=%t", hangs), func(b *testing.B) {
			r := newRig(b, destinations)
			if hangs {
				r.receiver.hang = make(chan struct{})
				b.Cleanup(sync.OnceFunc(func() { close(r.receiver.hang) }))
			}
			ticker := time.NewTicker(time.Second / rate)
			defer ticker.Stop()
			b.ResetTimer()
			used := r.measure()
			for range b.N {
				<-ticker.C
				id := uuid.New()
				r.receiver.expect(id)
				if err := r.publish(b.Context(), id); err != nil {
					b.Fatal(err)
				}
			}
			r.receiver.await(b, b.N*(destinations-1))
			b.StopTimer()
			used.report(b.N * (destinations - 1))
			if p99 := r.receiver.reportLatencies(); hangs {
				reportOfAlone(b, p99, alone)
			} else {
				alone = p99
			}
		})
	}
}
