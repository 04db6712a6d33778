//go:build nightly

package bench

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

var steadyRates = []int{50, 200, 600}

// measureSteady publishes at a rate for at most 15 s, after 3 s in which the process comes to rest from its start, and
// reports what a delivery costs and how long it takes. recorded waits until n deliveries are recorded.
func (r *rig) measureSteady(rate int, recorded func(n int)) (each float64) {
	r.Helper()
	n, first := min(size("DELIVERIES", 5000), 15*rate), 3*rate
	r.steady(rate, first)
	recorded(first)
	r.receiver.forgetLatencies()
	before := r.cost()
	r.steady(rate, n)
	recorded(first + n)
	each = r.reportDelivered(before, n)
	r.receiver.reportCame(first + n)
	return each
}

// BenchmarkServedSteady measures the cost and the duration of a delivery at a steady rate.
func BenchmarkServedSteady(b *testing.B) {
	for _, rate := range steadyRates {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			r := newRig(b, 1)
			wait := r.profile(15)
			each := r.measureSteady(rate, r.succeeded)
			wait()
			if bareCost[rate] > 0 {
				report(b, "times-bare", each/bareCost[rate])
			}
		})
	}
}

// BenchmarkServedStrict is BenchmarkServedSteady at 600/s on nodes over TCP: a lenient one, and two that behave as real
// servers, whose p99 is to be within 1.5 times of the first one's.
func BenchmarkServedStrict(b *testing.B) {
	var plain time.Duration
	for _, c := range []struct {
		name   string
		strict *stricttest.Strict
	}{{"plain", nil}, {"23.10", &stricttest.Strict{}}, {"25.0", &stricttest.Strict{Later: true}}} {
		b.Run(c.name, func(b *testing.B) {
			n, err := node.Open(node.Config{Dir: b.TempDir(), Quirks: c.strict})
			if err != nil {
				b.Fatal(err)
			}
			listener, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				b.Fatal(err)
			}
			served := make(chan error, 1)
			go func() { served <- n.Serve(listener) }()
			b.Cleanup(func() {
				if err := n.Close(); err != nil {
					b.Error(err)
				}
				if err := <-served; err != nil {
					b.Error(err)
				}
			})
			r := newRig(b, 1, "CHILD_STORE=esdb://"+listener.Addr().String()+"?tls=false")
			r.measureSteady(600, r.succeeded)
			p99 := r.receiver.reportLatencies("")
			if c.strict == nil {
				plain = p99
			} else if plain > 0 {
				reportAtMost(b, "p99-of-plain", float64(p99)/float64(plain), 1.5)
				report(b, "dropped", float64(c.strict.Dropped()))
			}
		})
	}
}

// BenchmarkServedIdle measures the processor time of an idle server and its Postgres in a second, 3 s after its start.
func BenchmarkServedIdle(b *testing.B) {
	const seconds = 20
	r := newRig(b, 1)
	r.steady(50, 150)
	r.succeeded(150)
	time.Sleep(3 * time.Second)
	before, wait := r.cost(), r.profile(seconds)
	time.Sleep(seconds * time.Second)
	r.reportCost(before, seconds, "s")
	wait()
}

// BenchmarkServedFull: published over HTTP → recorded as succeeded, as fast as it goes.
func BenchmarkServedFull(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			r, n := newRig(b, destinations), size("DELIVERIES", 5000)/destinations
			began, before, wait := time.Now(), r.cost(), r.profile(5)
			r.flood(n)
			r.succeeded(n * destinations)
			took := time.Since(began)
			r.reportDelivered(before, n*destinations)
			r.receiver.reportCame(n * destinations)
			r.reportRate(float64(n*destinations)/took.Seconds(), destinations)
			wait()
		})
	}
}

// reportRate reports a rate, and which part it is of the bare sender's in the same run.
func (r *rig) reportRate(delivered float64, destinations int) {
	report(r.TB, "delivered/s", delivered)
	if bare := bareRate[destinations]; bare > 0 {
		report(r.TB, "%-of-bare", 100*delivered/bare)
	}
}

// BenchmarkServedHistory compares a server with an empty history, and a server with five million deliveries (HISTORY:
// another number) in its read models: as fast as it goes, at a steady 600/s, its memory after that (LOAD: for how long,
// else 10 s), and how soon after the start of its process the first delivery comes.
func BenchmarkServedHistory(b *testing.B) {
	load, err := time.ParseDuration(os.Getenv("LOAD"))
	if err != nil {
		load = 10 * time.Second
	}
	for _, known := range []int{0, size("HISTORY", 5_000_000)} {
		b.Run(fmt.Sprintf("deliveries=%d", known), func(b *testing.B) {
			const rate = 600
			r, n := newRig(b, 1), size("DELIVERIES", 5000)
			if known > 0 {
				r.remember(known)
			}
			began, before := time.Now(), r.cost()
			r.flood(n)
			r.succeeded(known + n)
			r.reportRate(float64(n)/time.Since(began).Seconds(), 1)
			report(b, "flood-cpu-µs", float64(r.since(before).of().Microseconds())/float64(n))
			r.receiver.forgetLatencies()
			steady := int(load.Seconds() * rate)
			before = r.cost()
			r.steady(rate, steady)
			r.succeeded(known + n + steady)
			r.reportDelivered(before, steady)
			r.receiver.reportCame(n + steady)
			report(b, "rss-MB", r.resident("VmRSS"))
			report(b, "first-delivery-ms", milliseconds(r.startAgain(n+steady+1)))
		})
	}
}

// startAgain stops the server and starts it, publishes as soon as it takes events, and returns how long after the start
// of its process the delivery came, which is the want-th.
func (r *rig) startAgain(want int) time.Duration {
	r.pool.Close()
	r.stop()
	r.process = r.serve()
	for r.publish(asJSON, bytes.NewReader(event(uuid.New(), organization))) != nil {
		time.Sleep(time.Millisecond)
	}
	r.receiver.await(want)
	return time.Since(r.began)
}

// remember fills the read model with succeeded deliveries of the last weeks, by SQL: the event store knows none of
// them. Five million are there in a fraction of the time if the indexes are made afterwards.
func (r *rig) remember(n int) {
	r.Helper()
	var keys, indexes []string
	err := r.pool.QueryRow(r.Context(), `
		SELECT array_agg(indexrelid::regclass::text), array_agg(pg_get_indexdef(indexrelid))
		FROM pg_index WHERE indrelid = 'deliveries.deliveries'::regclass AND NOT indisprimary`).Scan(&keys, &indexes)
	if err != nil {
		r.Fatal(err)
	}
	for _, statement := range []string{
		"ALTER TABLE deliveries.deliveries DROP CONSTRAINT deliveries_pkey",
		"DROP INDEX " + strings.Join(keys, ", "),
		fmt.Sprintf(`INSERT INTO deliveries.deliveries (id, organization, destination, created_at, completed_at, revision,
			attempts, automatic,
			event_id, event_time, status, type, source, subscriptions, attempted_at, duration_micros, response_status, trigger)
		SELECT gen_random_uuid(), d.organization, d.id, t, t, 0, 1, 1, gen_random_uuid(), t, 'succeeded', 'news.item.added',
		'/bench', '{}', t, 2000, 204, 'automatic'
		FROM (SELECT * FROM destinations.destinations ORDER BY created_at LIMIT 1) d, generate_series(1, %d) i,
			LATERAL (SELECT now() - i * interval '1 second') AS at (t)`, n),
		"ALTER TABLE deliveries.deliveries ADD PRIMARY KEY (id)",
		strings.Join(indexes, "; "),
		`INSERT INTO deliveries.tallies (destination, day, type, feed_id, total, succeeded, failed, superseded, discarded)
			SELECT destination, created_at::date, type, '00000000-0000-0000-0000-000000000000', count(*), count(*), 0, 0, 0
			FROM deliveries.deliveries GROUP BY 1, 2, 3`,
		"VACUUM ANALYZE deliveries.deliveries",
	} {
		if _, err := r.pool.Exec(r.Context(), statement); err != nil {
			r.Fatal(err)
		}
	}
}
