package app_test

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
)

// The benchmarks in this file look at a server from outside: "serve" on embedded defaults is a process of its own, events
// come over HTTP, and deliveries go to an HTTPS receiver in this process. What a delivery costs is the processor time of
// the server and of its Postgres, without that of whoever publishes and receives.

// outside is a server, somebody who publishes, and a receiver.
type outside struct {
	*served
	b        *testing.B
	dir      string
	receiver *counter
	client   *http.Client
	token    string
	pool     *pgxpool.Pool
	postgres pgtest.Usage
}

func newOutside(b *testing.B, destinations int) *outside {
	b.Helper()
	dir := benchDir(b)
	o := &outside{b: b, dir: dir, client: &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 256}}}
	b.Cleanup(o.client.CloseIdleConnections)
	o.start()
	token, err := os.ReadFile(filepath.Join(dir, config.AdminTokenFile))
	if err != nil {
		b.Fatal(err)
	}
	o.token = strings.TrimSpace(string(token))
	authority, err := dev.EnsureAuthority(dir)
	if err != nil {
		b.Fatal(err)
	}
	o.receiver = newCounter(b, authority)
	o.subscribe(destinations)
	return o
}

// start starts the server and finds its Postgres.
func (o *outside) start() {
	o.b.Helper()
	o.served = serve(o.b, o.dir, "CHILD_DEV=1")
	o.until("ready", time.Minute, o.ready)
	lines, err := os.ReadFile(filepath.Join(o.dir, "postgres", "pgdata", "postmaster.pid"))
	if err != nil {
		o.Fatal(err)
	}
	fields := strings.Split(string(lines), "\n") // process id, directory, start, port, directory of the socket, …
	url := fmt.Sprintf("postgres://carillon@/carillon?host=%s&port=%s&sslmode=disable", fields[4], fields[3])
	if o.pool, err = pgxpool.New(o.Context(), url); err != nil {
		o.Fatal(err)
	}
	o.b.Cleanup(o.pool.Close)
	o.postgres = pgtest.UsageOf(o.Context(), o.b, o.pool)
}

func (o *outside) subscribe(destinations int) {
	o.Helper()
	key, err := dev.ReadKey(o.dir)
	if err != nil {
		o.Fatal(err)
	}
	for i := range destinations {
		url := fmt.Sprintf("%s/%d", o.receiver.url, i)
		d, err := post(o.api, key, "/events/destinations", map[string]any{"name": "bench", "config": map[string]any{"url": url}})
		if err == nil {
			err = o.receiver.trust(i, d.Secrets[0].Secret)
		}
		if err == nil {
			_, err = post(o.api, key, "/events/destinations/"+d.ID+"/subscriptions", map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"})
		}
		if err != nil {
			o.Fatal(err)
		}
	}
}

// event is one as POST /admin/events takes it.
func event(id uuid.UUID) []byte {
	return fmt.Appendf(nil, `{"id":"%s","type":"news.item.added","source":"/bench","subject":"item/%s","organizationId":"%s","data":%s}`,
		id, id, organization, payload)
}

func (o *outside) send(media string, body io.Reader) error {
	request, err := http.NewRequestWithContext(o.Context(), http.MethodPost, "http://"+o.admin+"/admin/events", body)
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+o.token)
	request.Header.Set("Content-Type", media)
	response, err := o.client.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	answer, err := io.ReadAll(response.Body)
	if err == nil && response.StatusCode != http.StatusOK {
		err = fmt.Errorf("publish: %d %s", response.StatusCode, answer)
	}
	return err
}

// publish publishes one event by a request of its own.
func (o *outside) publish() {
	id := uuid.New()
	o.receiver.expect(id)
	if err := o.send("application/json", bytes.NewReader(event(id))); err != nil {
		o.b.Error(err)
	}
}

// succeeded waits until the read model shows n deliveries as succeeded.
func (o *outside) succeeded(n int) {
	o.b.Helper()
	for deadline := time.Now().Add(5 * time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		var recorded int
		err := o.pool.QueryRow(context.Background(), "SELECT coalesce(sum(succeeded), 0) FROM deliveries.tallies").Scan(&recorded)
		if err != nil {
			o.Fatal(err)
		}
		if recorded >= n {
			return
		}
	}
	o.Fatalf("not all of %d deliveries were recorded", n)
}

// cost is the processor time that a server and its Postgres have had.
type cost struct{ server, postgres time.Duration }

func (o *outside) cost() cost { return cost{o.processorTime(), o.postgres.Postgres()} }

// report tells what each of so many deliveries cost since, and fails unless these and no others came.
func (o *outside) report(since cost, deliveries int) {
	o.b.Helper()
	o.reportCosts(since, deliveries)
	o.receiver.report(deliveries)
}

func (o *outside) reportCosts(since cost, deliveries int) (each float64) {
	o.b.Helper()
	now := o.cost()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(deliveries) }
	o.b.ReportMetric(per(now.server-since.server), "server-cpu-µs/delivered")
	o.b.ReportMetric(per(now.postgres-since.postgres), "postgres-cpu-µs/delivered")
	each = per(now.server - since.server + now.postgres - since.postgres)
	o.b.ReportMetric(each, "cpu-µs/delivered")
	o.b.ReportMetric(o.resident("VmHWM"), "peak-rss-MB")
	o.receiver.reportLatencies()
	return each
}

// profile keeps what the server's processor time and memory go into, in the directory that PROFILES names.
func (o *outside) profile(seconds int) (wait func()) {
	dir := os.Getenv("PROFILES")
	if dir == "" {
		return func() {}
	}
	var profiling sync.WaitGroup
	get := func(path, suffix string) {
		request, err := http.NewRequestWithContext(o.Context(), http.MethodGet, fmt.Sprintf("http://%s/debug/pprof/%s", o.admin, path), http.NoBody)
		if err != nil {
			o.b.Error(err)
			return
		}
		request.Header.Set("Authorization", "Bearer "+o.token)
		response, err := o.client.Do(request)
		if err != nil {
			o.b.Error(err)
			return
		}
		defer func() { _ = response.Body.Close() }()
		profile, err := io.ReadAll(response.Body)
		if err == nil {
			err = os.WriteFile(filepath.Join(dir, strings.NewReplacer("/", "_", "=", "").Replace(o.b.Name())+suffix), profile, 0o600)
		}
		if err != nil {
			o.b.Error(err)
		}
	}
	profiling.Go(func() { get(fmt.Sprintf("profile?seconds=%d", seconds), ".pprof") })
	profiling.Go(func() { get(fmt.Sprintf("allocs?seconds=%d", seconds), ".allocs") })
	return func() {
		profiling.Wait()
		get("heap", ".heap")
	}
}

// BenchmarkServedSteady: what a delivery costs at a steady rate, and how long it takes. It runs for at most 15 s, after 3 s
// in which the server comes to rest from its start.
func BenchmarkServedSteady(b *testing.B) {
	for _, rate := range []int{50, 200, 600} {
		b.Run(fmt.Sprintf("rate=%d", rate), func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			o, n, begun := newOutside(b, 1), min(b.N, 15*rate), 3*rate
			o.steady(rate, begun)
			o.succeeded(begun)
			o.receiver.forgetLatencies()
			b.ResetTimer()
			before, wait := o.cost(), o.profile(n/rate)
			o.steady(rate, n)
			o.succeeded(begun + n)
			b.StopTimer()
			if each := o.reportCosts(before, n); bareCost[rate] > 0 {
				b.ReportMetric(each/bareCost[rate], "times-bare")
			}
			o.receiver.report(begun + n)
			wait()
		})
	}
}

// BenchmarkServedIdle: what a server and its Postgres take in a second in which nothing happens, after 3 s in which it
// comes to rest from its start.
func BenchmarkServedIdle(b *testing.B) {
	const seconds = 20
	o := newOutside(b, 1)
	o.steady(50, 150)
	o.succeeded(150)
	time.Sleep(3 * time.Second)
	b.ResetTimer()
	before, wait := o.cost(), o.profile(seconds)
	time.Sleep(seconds * time.Second)
	now := o.cost()
	b.StopTimer()
	b.ReportMetric(float64((now.server-before.server).Microseconds())/seconds, "server-cpu-µs/s")
	b.ReportMetric(float64((now.postgres-before.postgres).Microseconds())/seconds, "postgres-cpu-µs/s")
	wait()
}

// steady publishes at a rate, open loop: a slow answer delays no later event.
func (o *outside) steady(rate, n int) {
	var publishing sync.WaitGroup
	began := time.Now()
	for i := range n {
		time.Sleep(time.Until(began.Add(time.Duration(i) * time.Second / time.Duration(rate))))
		publishing.Go(o.publish)
	}
	publishing.Wait()
}

// BenchmarkServedFull: published over HTTP → recorded as succeeded, as fast as it goes.
func BenchmarkServedFull(b *testing.B) {
	for _, destinations := range []int{1, 10} {
		b.Run(fmt.Sprintf("destinations=%d", destinations), func(b *testing.B) {
			o, n := newOutside(b, destinations), max(1, b.N/destinations)
			b.ResetTimer()
			started, before, wait := time.Now(), o.cost(), o.profile(5)
			o.flood(n)
			o.succeeded(n * destinations)
			took := time.Since(started)
			b.StopTimer()
			o.report(before, n*destinations)
			o.reportRate(float64(n*destinations)/took.Seconds(), destinations)
			wait()
		})
	}
}

// reportRate tells how fast it was, and what part that is of the bare sender's in the same run.
func (o *outside) reportRate(delivered float64, destinations int) {
	o.b.ReportMetric(delivered, "delivered/s")
	if bare := bareRate[destinations]; bare > 0 {
		o.b.ReportMetric(100*delivered/bare, "%-of-bare")
	}
}

// flood publishes by 64 connections, each event by a request.
func (o *outside) flood(n int) {
	var next atomic.Int64
	var publishing sync.WaitGroup
	for range 64 {
		publishing.Go(func() {
			for next.Add(1) <= int64(n) {
				o.publish()
			}
		})
	}
	publishing.Wait()
}

// BenchmarkServedIngest: events a second that POST /admin/events takes as NDJSON, by one request. Nobody subscribed.
func BenchmarkServedIngest(b *testing.B) {
	o := newOutside(b, 0)
	var body bytes.Buffer
	for range b.N {
		body.Write(event(uuid.New()))
		body.WriteByte('\n')
	}
	b.ResetTimer()
	started, before, wait := time.Now(), o.cost(), o.profile(5)
	if err := o.send("application/x-ndjson", &body); err != nil {
		b.Fatal(err)
	}
	took := time.Since(started)
	b.StopTimer()
	now := o.cost()
	b.ReportMetric(float64(b.N)/took.Seconds(), "events/s")
	b.ReportMetric(float64((now.server-before.server).Microseconds())/float64(b.N), "server-cpu-µs/event")
	b.ReportMetric(float64((now.postgres-before.postgres).Microseconds())/float64(b.N), "postgres-cpu-µs/event")
	wait()
}

// BenchmarkServedHistory: a server with an empty history, and one that has five million deliveries (HISTORY: another
// number) in its read models: as fast as it goes, at a steady 600/s, its memory after that (LOAD: for how long, 10 s
// where nothing is said), and how soon after the start of its process the first delivery comes.
func BenchmarkServedHistory(b *testing.B) {
	history, load := 5_000_000, 10*time.Second
	if n, err := strconv.Atoi(os.Getenv("HISTORY")); err == nil {
		history = n
	}
	if d, err := time.ParseDuration(os.Getenv("LOAD")); err == nil {
		load = d
	}
	for _, known := range []int{0, history} {
		b.Run(fmt.Sprintf("deliveries=%d", known), func(b *testing.B) {
			if b.N == 1 {
				return // that is only to find out how long it takes
			}
			const rate = 600
			o := newOutside(b, 1)
			remember(b, o.pool, known)
			b.ResetTimer()
			started, before := time.Now(), o.cost()
			o.flood(b.N)
			o.succeeded(known + b.N)
			o.reportRate(float64(b.N)/time.Since(started).Seconds(), 1)
			o.reportCost("flood-cpu-µs", before, b.N)
			o.receiver.forgetLatencies()
			n := int(load.Seconds() * rate)
			before = o.cost()
			o.steady(rate, n)
			o.succeeded(known + b.N + n)
			o.reportCost("steady-cpu-µs", before, n)
			o.receiver.reportLatencies()
			o.receiver.report(b.N + n)
			b.ReportMetric(o.resident("VmRSS"), "rss-MB")
			b.ReportMetric(o.resident("VmHWM"), "peak-rss-MB")
			b.ReportMetric(float64(o.startAgain(b.N+n+1).Milliseconds()), "first-delivery-ms")
		})
	}
}

func (o *outside) reportCost(unit string, since cost, deliveries int) {
	now := o.cost()
	o.b.ReportMetric(float64((now.server-since.server+now.postgres-since.postgres).Microseconds())/float64(deliveries), unit)
}

// startAgain stops the server and starts it, publishes as soon as it takes events, and returns how long after the start of
// its process the delivery came, which is the want-th.
func (o *outside) startAgain(want int) time.Duration {
	o.pool.Close()
	o.stop()
	o.served = serve(o.b, o.dir, "CHILD_DEV=1")
	id := uuid.New()
	for o.send("application/json", bytes.NewReader(event(id))) != nil {
		time.Sleep(time.Millisecond)
	}
	o.receiver.await(o.b, want)
	return time.Since(o.began)
}

// forgetLatencies begins to measure anew.
func (c *counter) forgetLatencies() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.took = c.took[:0]
}
