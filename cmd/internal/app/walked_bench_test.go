package app_test

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
)

// BenchmarkWalkOf5000: a sitemap of 5,000 pages with an event each, at a host that needs no pause, from the moment on when it
// is due until the walk is recorded. Killed, the server is killed in the middle and started again. Flooded, events have been
// published just before, for which the heap had more room than it has beside pages.
func BenchmarkWalkOf5000(b *testing.B) {
	for _, way := range []string{"quiet", "flooded", "killed"} {
		b.Run(way, func(b *testing.B) {
			for b.Loop() {
				walkSitemap(b, way == "killed", way == "flooded")
			}
		})
	}
}

func walkSitemap(b *testing.B, kill, flood bool) {
	const pages = 5000
	var open atomic.Bool
	var mu sync.Mutex
	asked := map[string]int{}
	half := make(chan struct{})
	reached := sync.OnceFunc(func() { close(half) })
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	var base string
	base = sites(b, 1, func(_ int, w http.ResponseWriter, r *http.Request) {
		if !open.Load() {
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		mu.Lock()
		asked[r.URL.Path]++
		if len(asked) == pages/2 {
			reached()
		}
		mu.Unlock()
		if r.URL.Path == "/sitemap.xml" {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write([]byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`))
			for i := range pages {
				_, _ = fmt.Fprintf(w, "<url><loc>%s/e/%d</loc></url>", base, i)
			}
			_, _ = w.Write([]byte("</urlset>"))
			return
		}
		var i int
		_, _ = fmt.Sscanf(r.URL.Path, "/e/%d", &i)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(pageOf(i, r.URL.Path, first.Add(time.Duration(i%(24*25))*time.Hour))))
	})[0]
	w := newWatching(b, true)
	feed := w.feed()
	w.attach("sitemap", []string{base + "/sitemap.xml"}, feed)
	w.visited(time.Time{})

	if flood {
		w.flood(40_000)
		b.ReportMetric(w.resident("VmRSS"), "flooded-MB")
	}
	w.measure()
	open.Store(true)
	began := time.Now()
	peak := func() float64 { return 0 }
	if flood {
		peak = w.peakSince(began.Add(2 * time.Second))
	}
	since := w.due()
	walked := func() bool {
		return w.count("SELECT count(*) FROM carillon.source_walks WHERE completed_at > $1", since) == 1
	}
	if kill {
		<-half
		_ = w.cmd.Process.Signal(syscall.SIGKILL)
		_ = w.cmd.Wait()
		w.start()
		// A minute after its last sign of life the visit is somebody else's. That minute is left out.
		if _, err := w.pool.Exec(b.Context(), "UPDATE carillon.source_walks SET held_until = '-infinity'"); err != nil {
			b.Fatal(err)
		}
		w.measure()
	}
	w.until("the sitemap is walked", time.Hour, walked)
	took := time.Since(began)
	w.until("all are in the feed's list", time.Hour, func() bool { return w.total(feed) == pages })
	requests := 0
	mu.Lock()
	for _, n := range asked {
		requests += n
	}
	again := requests - len(asked)
	mu.Unlock()
	if kill {
		b.ReportMetric(100*float64(again)/pages, "%-again")
		b.ReportMetric(1, "floor-%-again")
	} else {
		w.report(pages, "page")
		b.ReportMetric(float64(again), "again")
		b.ReportMetric(30, "floor-s")
		b.ReportMetric(200, "floor-MB")
	}
	b.ReportMetric(took.Seconds(), "s")
	b.ReportMetric(w.resident("VmHWM"), "peak-MB")
	if flood {
		b.ReportMetric(peak(), "peak-MB") // not that of the flood
	}
	b.ReportMetric(load(), "load")
}

// flood publishes events in which nobody is interested.
func (w *watching) flood(n int) {
	w.Helper()
	var body bytes.Buffer
	for range n {
		body.Write(event(uuid.New()))
		body.WriteByte('\n')
	}
	request, err := http.NewRequestWithContext(w.bench.Context(), http.MethodPost, "http://"+w.admin+"/admin/events", &body)
	if err != nil {
		w.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+w.admins)
	request.Header.Set("Content-Type", "application/x-ndjson")
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		w.Fatal(err)
	}
	if _ = response.Body.Close(); response.StatusCode != http.StatusOK {
		w.Fatalf("publish: %d", response.StatusCode)
	}
}

// peakSince looks at the server's memory from a time on until it is asked for the most there was, in MB.
func (w *watching) peakSince(from time.Time) (peak func() float64) {
	stop, most := make(chan struct{}), make(chan float64, 1)
	go func() {
		highest := 0.0
		for tick := time.Tick(50 * time.Millisecond); ; {
			select {
			case <-tick:
				if time.Now().After(from) {
					highest = max(highest, w.resident("VmRSS"))
				}
			case <-stop:
				most <- highest
				return
			}
		}
	}()
	return func() float64 {
		close(stop)
		return <-most
	}
}

// pageOf is the page of an event. No event is called after a place: a title that says only where would be one with any other
// there at that time.
func pageOf(i int, path string, start time.Time) string {
	return fmt.Sprintf(`<html><head><title>%[1]s</title></head><body><h1>%[1]s</h1><p>%[4]s</p>
<script type="application/ld+json">{"@context":"https://schema.org","@type":"Event","name":%[1]q,"url":%[2]q,"startDate":%[3]q,"description":%[4]q,
"location":{"@type":"Place","name":"%[5]s %[6]s","address":{"@type":"PostalAddress","streetAddress":"Via %[6]s %[7]d","addressLocality":"Bozen","addressCountry":"IT"}}}</script></body></html>`,
		titleOf(i), path, start.Format(time.RFC3339), strings.Repeat("An evening of music and words. ", 10), houses[i%len(houses)], nameOf(-1-i%40), i%40+1)
}

func titleOf(i int) string { return nameOf(i) + " " + nameOf(i/3) + " " + kinds[i%len(kinds)] }
