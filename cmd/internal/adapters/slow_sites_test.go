//go:build nightly

package adapters_test

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/must"
)

const slowSites, quickSites = 20, 200

// Twenty sites that do not answer, beside two hundred that answer at once: these are visited as if they were alone. The
// duration is logged, not compared: the machine may be busy.
func TestSlowSitesHoldBackNoVisits(t *testing.T) {
	var holding atomic.Bool
	var held atomic.Int32
	letGo := make(chan struct{})
	start := time.Now().Add(72 * time.Hour).UTC().Format(time.RFC3339)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		if strings.HasPrefix(r.Host, "slow") && holding.Load() {
			held.Add(1)
			<-letGo
		}
		w.Header().Set("Content-Type", "text/html")
		_, _ = fmt.Fprintf(w, `<script type="application/ld+json">{"@type":"Event","name":"Jazz at %s",`+
			`"startDate":%q}</script>`, r.Host, start)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher := must.Get(fetch.New(fetch.Options{Transport: transport, Interval: -1, Timeout: patience}))(t)
	w := open(t, map[string]collect.Collector{"site": site.New(fetcher, time.Now)})
	feed := w.feed()
	var slow, quick []uuid.UUID
	for i := range slowSites + quickSites {
		name, list := "quick", &quick // a server for each port
		if i < slowSites {
			name, list = "slow", &slow
		}
		id := w.source(command.RegisterSource{Type: "site", URL: fmt.Sprintf("http://%s.example:%d/programme", name, 8000+i)})
		w.attach(feed, id, "site")
		*list = append(*list, id)
	}
	completed := func(sources []uuid.UUID, since time.Time) (n int) {
		must.OK(t, w.pool.QueryRow(t.Context(), "SELECT count(*) FROM carillon.source_walks WHERE source_id = ANY ($1) "+
			"AND completed_at > $2", sources, since).Scan(&n))
		return n
	}
	visit := func(sources []uuid.UUID) (since time.Time) {
		must.OK(t, w.pool.QueryRow(t.Context(), "SELECT clock_timestamp()").Scan(&since))
		must.Get(w.pool.Exec(t.Context(), "UPDATE carillon.source_walks SET next_at = clock_timestamp() "+
			"WHERE source_id = ANY ($1)", sources))(t)
		return since
	}
	all := func() (best time.Duration) {
		for round := range 5 {
			since, begun := visit(quick), time.Now()
			must.Eventually(t, "all that answer are visited", func() bool { return completed(quick, since) == quickSites })
			if took := time.Since(begun); round == 0 || took < best {
				best = took
			}
		}
		return best
	}
	must.Eventually(w.t, "all are visited once", func() bool {
		return completed(append(slow, quick...), time.Unix(0, 0)) == slowSites+quickSites
	})

	alone := all()
	holding.Store(true)
	since := visit(slow)
	must.Eventually(w.t, "those that do not answer are asked", func() bool { return held.Load() == slowSites })
	beside := all()
	if n := completed(slow, since); n > 0 {
		t.Errorf("%d sites were visited that did not answer", n)
	}
	close(letGo)
	must.Eventually(w.t, "the others were waited for", func() bool { return completed(slow, since) == slowSites })
	t.Logf("%d sites in %s alone, in %s beside %d that do not answer: %.2f times as long", quickSites,
		alone.Round(time.Millisecond), beside.Round(time.Millisecond),
		slowSites, beside.Seconds()/alone.Seconds())
}
