package app_test

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/aggregates/source"
	"carillon/cmd/internal/dev"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
)

// web is many sources of one page with one event each, at several hosts. Each page has a version, which decides when
// its event begins.
type web struct {
	bases []string
	first time.Time

	mu       sync.Mutex
	versions []int
	requests int // for pages, robots.txt not included
}

func newWeb(b *testing.B, sources, hosts int) *web {
	b.Helper()
	c := &web{first: time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2), versions: make([]int, sources)}
	c.bases = sites(b, hosts, c.answer)
	return c
}

func (c *web) address(i int) string { return fmt.Sprintf("%s/%d", c.bases[i%len(c.bases)], i) }

func (c *web) answer(_ int, w http.ResponseWriter, r *http.Request) {
	i, err := strconv.Atoi(strings.TrimPrefix(r.URL.Path, "/"))
	c.mu.Lock()
	if err != nil || i >= len(c.versions) {
		c.mu.Unlock()
		http.NotFound(w, r)
		return
	}
	c.requests++
	version := c.versions[i]
	c.mu.Unlock()
	tag := fmt.Sprintf(`"%d"`, version)
	w.Header().Set("ETag", tag)
	if r.Header.Get("If-None-Match") == tag {
		w.WriteHeader(http.StatusNotModified)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = io.WriteString(w, pageOf(i, r.URL.Path, c.first.Add(time.Duration(i%(24*25))*time.Hour+time.Duration(30+version)*time.Minute)))
}

// change has a page show its event a minute later. None begins at midnight, which would be taken for a whole day.
func (c *web) change(i int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.versions[i]++
}

func (c *web) asked() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.requests
}

// register records the sources, a hundred of which fill a feed of the development organization, in a store that nobody
// reads yet.
func (c *web) register(b *testing.B, dir string) {
	b.Helper()
	if err := os.MkdirAll(dir, 0o700); err != nil {
		b.Fatal(err)
	}
	socket := nodetest.SocketDir(b) + "/s"
	stop := nodetest.Serve(b, dir+"/eventstore", socket)
	defer stop()
	store, err := esdb.OpenUnix(socket, slog.New(slog.DiscardHandler))
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = store.Close() }()
	now := time.Now().UTC().Truncate(time.Microsecond)
	var shown []feed.Event
	for i := range c.versions {
		id := source.ID(source.TypeSite, c.address(i), "", "Europe/Rome")
		append1[source.State, source.Event](b, store, source.Aggregate, id,
			source.Registered{Type: source.TypeSite, URL: c.address(i), Timezone: "Europe/Rome", At: now})
		if len(shown) == 0 {
			shown = append(shown, feed.Created{Organization: organization, Settings: feed.Settings{Name: "Bench", Description: "Bench"}, Enabled: true, At: now})
		}
		shown = append(shown, feed.SourceAttached{AssociationID: uuid.New(), SourceID: id, SourceType: source.TypeSite, At: now})
		if len(shown) > 100 || i == len(c.versions)-1 {
			append1(b, store, feed.Aggregate, uuid.New(), shown...)
			shown = nil
		}
	}
}

// told says when webhooks came, by the number of the source whose event they tell of, and the type.
type told struct {
	mu   sync.Mutex
	came map[string][]time.Time
}

// subscribe makes a destination to which everything is delivered.
func (w *watching) subscribe() *told {
	w.Helper()
	t := &told{came: map[string][]time.Time{}}
	authority, err := dev.EnsureAuthority(w.dir)
	if err != nil {
		w.Fatal(err)
	}
	certificate, err := authority.Certificate()
	if err != nil {
		w.Fatal(err)
	}
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		var event struct {
			Type string
			Data struct{ Title string }
		}
		now := time.Now()
		if r.Method == http.MethodPost && json.NewDecoder(r.Body).Decode(&event) == nil {
			t.mu.Lock()
			defer t.mu.Unlock()
			key := event.Type + " " + event.Data.Title
			t.came[key] = append(t.came[key], now)
		}
	}))
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	w.bench.Cleanup(receiver.Close)
	w.bench.Cleanup(receiver.CloseClientConnections)
	var destination made
	w.until("there is a destination", time.Minute, func() bool {
		return w.call(http.MethodPost, "/events/destinations", map[string]any{"name": "bench", "config": map[string]any{"url": receiver.URL}}, &destination) == nil
	})
	w.until("there is a subscription", time.Minute, func() bool {
		return w.call(http.MethodPost, "/events/destinations/"+destination.ID+"/subscriptions", map[string]any{"eventTypes": []string{"*"}, "scopeKind": "all"}, nil) == nil
	})
	return t
}

// of counts the webhooks of a type.
func (t *told) of(kind string) (n int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for key, times := range t.came {
		if strings.HasPrefix(key, kind+" ") {
			n += len(times)
		}
	}
	return n
}

const occurrenceChanged = "event.occurrence.changed"

// BenchmarkChange: so many pages change, 100 of them a second, and are visited at once. How long it takes from the
// beginning of the visit until a receiver has the webhook.
func BenchmarkChange(b *testing.B) {
	const rate = 100
	n := b.N
	c := newWeb(b, n, min(n, 500))
	w := prepareWatching(b, true)
	c.register(b, w.dir)
	w.start()
	webhooks := w.subscribe()
	w.visited(time.Time{})
	w.until("the backfills have ended", time.Hour, func() bool { return w.count("SELECT count(*) FROM sources.attachments WHERE backfilling") == 0 })

	b.ResetTimer()
	w.measure()
	ticker := time.NewTicker(time.Second / rate)
	defer ticker.Stop()
	for i := range n {
		<-ticker.C
		c.change(i)
		if _, err := w.pool.Exec(b.Context(), `UPDATE carillon.source_walks SET next_at = clock_timestamp() WHERE source_id = $1`,
			source.ID(source.TypeSite, c.address(i), "", "Europe/Rome")); err != nil {
			b.Fatal(err)
		}
	}
	w.until("all are told", time.Hour, func() bool { return webhooks.of(occurrenceChanged) == n })
	b.StopTimer()
	w.report(n, "change")
	began := w.visits()
	var took []time.Duration
	for i := range n {
		u, err := url.Parse(c.address(i))
		if err != nil {
			b.Fatal(err)
		}
		times := webhooks.came[occurrenceChanged+" "+titleOf(i)]
		if len(times) == 0 {
			b.Fatalf("nothing was told of %s, of others %v", u.Path, webhooks.came)
		}
		took = append(took, times[0].Sub(began[c.address(i)]))
	}
	b.ReportMetric(quantile(took, 0.5), "p50-ms")
	b.ReportMetric(quantile(took, 0.99), "p99-ms")
	b.ReportMetric(2000, "floor-p99-ms")
	b.ReportMetric(load(), "load")
}

// visits says when the last visit of each source began.
func (w *watching) visits() map[string]time.Time {
	w.Helper()
	rows, err := w.pool.Query(w.bench.Context(), "SELECT s.url, w.attempted_at FROM sources.sources s JOIN carillon.source_walks w ON w.source_id = s.id")
	if err != nil {
		w.Fatal(err)
	}
	defer rows.Close()
	began := map[string]time.Time{}
	for rows.Next() {
		var address string
		var at time.Time
		if err := rows.Scan(&address, &at); err != nil {
			w.Fatal(err)
		}
		began[address] = at
	}
	return began
}
