package app_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/cmd/internal/adminclient"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/projections/pgtest"
	"carillon/projections/postgres"
)

// The benchmarks of collecting run a whole server on embedded defaults with full durability in a process of its own,
// beside a Postgres with the settings of the private one, which the benchmark can look into. The sites are in the
// process of the benchmark.

// watching is a server that collects from sites of this machine.
type watching struct {
	*served

	bench  *testing.B
	dir    string
	env    []string
	pool   *pgxpool.Pool
	client *adminclient.Client
	key    string
	admins string // their token

	postgres pgtest.Usage
	own, its time.Duration // as of measure
	profiled func()        // keeps what is profiled since
}

// newWatching starts a server. Unhurried it keeps no pace.
func newWatching(b *testing.B, unhurried bool) *watching {
	b.Helper()
	w := prepareWatching(b, unhurried)
	w.start()
	return w
}

// prepareWatching makes what the server stands on.
func prepareWatching(b *testing.B, unhurried bool) *watching {
	b.Helper()
	dir := benchDir(b)
	database, err := postgres.Start(b.Context(), postgres.Config{
		Dir: filepath.Join(dir, "postgres"), Logger: slog.New(slog.DiscardHandler), Disposable: true, Settings: statementSettings(),
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = database.Stop(b.Context()) })
	w := &watching{bench: b, dir: filepath.Join(dir, "data"), env: []string{"CHILD_DEV=1", "CHILD_DATABASE=" + database.URL()}}
	if unhurried {
		w.env = append(w.env, "CHILD_UNHURRIED=1")
	}
	if w.pool, err = pgxpool.New(b.Context(), database.URL()); err != nil {
		b.Fatal(err)
	}
	b.Cleanup(w.pool.Close)
	return w
}

// start starts the server, again where it was killed.
func (w *watching) start() {
	b := w.bench
	b.Helper()
	w.served = serve(b, w.dir, w.env...)
	w.until("it is ready", time.Minute, w.ready)
	w.until("it has a key", time.Minute, func() bool {
		key, err := dev.ReadKey(w.dir)
		w.key = key
		return err == nil
	})
	client := config.Client{DataDir: w.dir}
	token, err := client.Token()
	if err != nil {
		b.Fatal(err)
	}
	w.admins = token
	w.client = adminclient.New("http://"+w.admin, token)
	w.postgres = pgtest.UsageOf(b.Context(), b, w.pool)
}

// measure begins to count processor time; report tells what each of so many took since.
func (w *watching) measure() {
	w.profiled = w.profile()
	w.own, w.its = w.processorTime(), w.postgres.Postgres()
}

func (w *watching) report(n int, each string) {
	w.Helper()
	per := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(n) }
	own, its := w.processorTime()-w.own, w.postgres.Postgres()-w.its
	w.profiled()
	w.bench.ReportMetric(per(own), "server-cpu-µs/"+each)
	w.bench.ReportMetric(per(its), "postgres-cpu-µs/"+each)
	w.bench.ReportMetric(per(own+its), "cpu-µs/"+each)
	w.bench.ReportMetric(w.resident("VmHWM"), "peak-MB")
}

// call makes a request of the API. It is tried again while read models are behind.
func (w *watching) call(method, path string, body, into any) error {
	raw, err := json.Marshal(body)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(w.bench.Context(), method, "http://"+w.api+path, bytes.NewReader(raw))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+w.key)
	request.Header.Set("Content-Type", "application/json")
	response, err := impatient.Do(request)
	if err != nil {
		return err
	}
	defer func() { _ = response.Body.Close() }()
	var envelope struct {
		Success bool            `json:"success"`
		Data    json.RawMessage `json:"data"`
	}
	if err := json.NewDecoder(response.Body).Decode(&envelope); err != nil || !envelope.Success {
		return fmt.Errorf("%s: %d, %w", path, response.StatusCode, err)
	}
	if into == nil {
		return nil
	}
	return json.Unmarshal(envelope.Data, into)
}

func (w *watching) feed() string {
	w.Helper()
	var feed made
	w.until("there is a feed", time.Minute, func() bool {
		return w.call(http.MethodPost, "/feeds/events", map[string]any{"name": "Concerts", "description": "In town"}, &feed) == nil
	})
	return feed.ID
}

// attach adds sources and attaches them to feeds, in turn.
func (w *watching) attach(sourceType string, addresses []string, feeds ...string) (ids []uuid.UUID) {
	w.Helper()
	for i, address := range addresses {
		created, err := w.client.AddSource(w.bench.Context(), adminclient.NewSource{Type: sourceType, URL: address, Timezone: "Europe/Rome"})
		if err != nil {
			w.Fatal(err)
		}
		body := map[string]any{"sourceType": sourceType, "sourceId": created.ID}
		if err := w.call(http.MethodPost, "/feeds/events/"+feeds[i%len(feeds)]+"/sources", body, nil); err != nil {
			w.Fatal(err)
		}
		ids = append(ids, created.ID)
	}
	return ids
}

// total is how many items a feed has.
func (w *watching) total(feed string) int {
	w.Helper()
	var page struct{ Total int }
	until := time.Now().AddDate(0, 0, 29).UTC().Format(time.RFC3339)
	if err := w.call(http.MethodGet, "/feeds/events/"+feed+"/items?limit=1&until="+until, nil, &page); err != nil {
		w.Fatal(err)
	}
	return page.Total
}

// due makes all sources due, and says since when, by the clock of Postgres.
func (w *watching) due() (since time.Time) {
	w.Helper()
	const now = "WITH due AS (UPDATE carillon.source_walks SET next_at = clock_timestamp() WHERE next_at <> 'infinity') SELECT clock_timestamp()"
	if err := w.pool.QueryRow(w.bench.Context(), now).Scan(&since); err != nil {
		w.Fatal(err)
	}
	return since
}

func (w *watching) count(query string, args ...any) (n int) {
	w.Helper()
	if err := w.pool.QueryRow(w.bench.Context(), query, args...).Scan(&n); err != nil {
		w.Fatal(err)
	}
	return n
}

// sites answer at so many hosts of this machine: a server each, as a host is one with its port.
func sites(b *testing.B, hosts int, answer func(host int, w http.ResponseWriter, r *http.Request)) (bases []string) {
	b.Helper()
	for host := range hosts {
		listener, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			b.Fatal(err)
		}
		server := &http.Server{ReadHeaderTimeout: time.Minute, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path == "/robots.txt" {
				http.NotFound(w, r)
				return
			}
			answer(host, w, r)
		})}
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(func() { _ = server.Close() })
		bases = append(bases, "http://"+listener.Addr().String())
	}
	return bases
}

// bytesIn is what the files of a directory take of the disk, in bytes.
func bytesIn(dir string) (n int64) {
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return nil //nolint:nilerr // what has just gone takes nothing
		}
		if info, err := d.Info(); err == nil {
			n += info.Size()
		}
		return nil
	})
	return n
}

// quantile of durations, in milliseconds.
func quantile(took []time.Duration, q float64) float64 {
	slices.Sort(took)
	return float64(took[min(int(q*float64(len(took))), len(took)-1)].Microseconds()) / 1000
}
