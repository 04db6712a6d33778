//go:build nightly

package bench

import (
	"fmt"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/cmd/internal/adminclient"
	"carillon/eventstore/storetest/must"
)

// noHostDelay is a variable of a server that keeps no pace with the hosts of its sources.
const noHostDelay = "CHILD_NO_HOST_DELAY=1"

// feed makes one.
func (r *rig) feed() string {
	r.Helper()
	var feed created
	must.OK(r, r.post("/feeds/events", map[string]any{"name": "Concerts", "description": "In town"}, &feed))
	return feed.ID
}

// attach adds sources and attaches them to a feed.
func (r *rig) attach(sourceType, feed string, addresses ...string) {
	r.Helper()
	client := adminclient.New("http://"+r.admin, r.token)
	for _, address := range addresses {
		added, err := client.AddSource(r.Context(), adminclient.NewSource{Type: sourceType, URL: address, Timezone: timezone})
		if err == nil {
			err = r.post("/feeds/events/"+feed+"/sources", map[string]any{"sourceType": sourceType, "sourceId": added.ID}, nil)
		}
		must.OK(r, err)
	}
}

// total is how many items a feed has.
func (r *rig) total(feed string) int {
	r.Helper()
	var page struct{ Total int }
	until := time.Now().AddDate(0, 0, 29).UTC().Format(time.RFC3339)
	must.OK(r, r.call(http.MethodGet, r.api+"/feeds/events/"+feed+"/items?limit=1&until="+until, r.key, nil, &page))
	return page.Total
}

// due makes all sources due, and returns since when, by the clock of Postgres.
func (r *rig) due() (since time.Time) {
	r.Helper()
	const now = "WITH due AS (UPDATE carillon.source_walks SET next_at = clock_timestamp() WHERE next_at <> 'infinity') " +
		"SELECT clock_timestamp()"
	must.OK(r, r.pool.QueryRow(r.Context(), now).Scan(&since))
	return since
}

// visited waits until all sources were visited since a time and are at rest, and their happenings are processed.
func (r *rig) visited(since time.Time) {
	r.Helper()
	r.until("all are visited", func() bool {
		return r.count(`SELECT count(*) FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id
			WHERE s.paused_at IS NULL AND (w.source_id IS NULL OR w.attempted_at IS NULL OR w.attempted_at < $1
			OR w.holder IS NOT NULL OR s.wanted_at IS NOT NULL)`, since) == 0
	})
	r.until("all is processed", r.caughtUp)
}

// reportLoad reports how many processes want a processor of this machine, on average over a minute.
func reportLoad(b testing.TB) {
	text, _ := os.ReadFile("/proc/loadavg")
	var n float64
	_, _ = fmt.Sscan(string(text), &n)
	report(b, "load", n)
}

// BenchmarkIngest collects INGESTED happenings, 200 of a calendar, from the moment on when the calendars are due until
// all are in the feed's list. As a backfill they are not published; as news each is published as well; as "known" they
// are known already, and shown by other calendars with other keys and titles, until all is merged.
func BenchmarkIngest(b *testing.B) {
	for _, way := range []string{"backfill", "news", "known"} {
		b.Run(way, func(b *testing.B) { ingest(b, way) })
	}
}

func ingest(b *testing.B, way string) {
	calendars := (size("INGESTED", 20_000) + perCalendar - 1) / perCalendar
	want := calendars * perCalendar
	var open, again atomic.Bool
	first := firstDay()
	programmes := func(others bool) []string {
		bases := sites(b, calendars, func(host int, w http.ResponseWriter, _ *http.Request) {
			if !open.Load() && way != "news" || others && !again.Load() {
				http.Error(w, "not yet", http.StatusInternalServerError)
				return
			}
			w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
			n := perCalendar
			if !open.Load() {
				n = 0
			}
			_, _ = w.Write([]byte(calendarOf(host, n, first, others)))
		})
		for i := range bases {
			bases[i] += "/programme.ics"
		}
		return bases
	}
	r := newRig(b, 0, noHostDelay)
	feed := r.feed()
	r.attach("site", feed, programmes(false)...)
	if way == "known" {
		r.attach("site", feed, programmes(true)...)
	}
	r.visited(time.Time{})

	before, wait, began := r.cost(), r.profile(15), time.Now()
	open.Store(true)
	r.due()
	merged := func() int { return r.count("SELECT count(*) FROM items.merged") }
	r.until("all are in the feed's list", func() bool { return r.total(feed)+merged() == want })
	if way == "known" {
		r.visited(time.Time{})
		known := merged()
		before, began = r.cost(), time.Now()
		again.Store(true)
		r.visited(r.due())
		report(b, "%-merged", 100*float64(merged()-known)/float64(want))
	}
	reportAtLeast(b, "happenings/s", float64(want)/time.Since(began).Seconds(), 2000)
	r.reportCost(before, want, "happening")
	report(b, "peak-MB", r.resident("VmHWM"))
	reportLoad(b)
	wait()
}

const walkedPages = 5000

// BenchmarkWalkOf5000: a sitemap of 5,000 pages with an event each, at a host that needs no pause, from the moment on
// when it is due until the walk is recorded. Killed, the server is killed in the middle and started again. Flooded,
// events have been published just before, for which the heap had more room than it has beside pages.
func BenchmarkWalkOf5000(b *testing.B) {
	for _, way := range []string{"quiet", "flooded", "killed"} {
		b.Run(way, func(b *testing.B) {
			s := newSitemap(b)
			r := newRig(b, 0, noHostDelay)
			feed := r.feed()
			r.attach("sitemap", feed, s.base+"/sitemap.xml")
			r.visited(time.Time{})
			if way == "flooded" {
				must.OK(b, r.publish(asNDJSON, events(40_000, organization)))
				report(b, "flooded-MB", r.resident("VmRSS"))
			}
			before, began := r.cost(), time.Now()
			s.open.Store(true)
			peak := r.peakSince(began.Add(2 * time.Second)) // not that of the flood
			since := r.due()
			if way == "killed" {
				<-s.half
				r.Kill()
				r.startServer()
				// A minute after its last heartbeat the visit would be another process's. That minute is left out.
				must.Get(r.pool.Exec(b.Context(), "UPDATE carillon.source_walks SET held_until = '-infinity'"))(b)
			}
			r.until("the sitemap is walked", func() bool {
				return r.count("SELECT count(*) FROM carillon.source_walks WHERE completed_at > $1", since) == 1
			})
			took := time.Since(began)
			r.until("all are in the feed's list", func() bool { return r.total(feed) == walkedPages })
			if way == "killed" {
				reportAtMost(b, "%-again", 100*float64(s.again())/walkedPages, 1)
			} else {
				r.reportCost(before, walkedPages, "page")
				report(b, "again", float64(s.again()))
			}
			reportAtMost(b, "s", took.Seconds(), 30)
			reportAtMost(b, "peak-MB", peak(), 200)
			reportLoad(b)
		})
	}
}

// sitemap is a host of many pages that is closed at first.
type sitemap struct {
	base string
	open atomic.Bool
	half chan struct{} // closed when half of the pages were asked for

	mu    sync.Mutex
	asked map[string]int
}

func newSitemap(b testing.TB) *sitemap {
	b.Helper()
	s := &sitemap{half: make(chan struct{}), asked: map[string]int{}}
	first := firstDay()
	s.base = sites(b, 1, func(_ int, w http.ResponseWriter, r *http.Request) {
		if !s.open.Load() {
			http.Error(w, "not yet", http.StatusInternalServerError)
			return
		}
		s.count(r.URL.Path)
		if r.URL.Path == "/sitemap.xml" {
			w.Header().Set("Content-Type", "application/xml")
			_, _ = w.Write([]byte(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`))
			for i := range walkedPages {
				_, _ = fmt.Fprintf(w, "<url><loc>%s/e/%d</loc></url>", s.base, i)
			}
			_, _ = w.Write([]byte("</urlset>"))
			return
		}
		var i int
		_, _ = fmt.Sscanf(r.URL.Path, "/e/%d", &i)
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(pageOf(i, r.URL.Path, first.Add(time.Duration(i%(24*25))*time.Hour))))
	})[0]
	return s
}

func (s *sitemap) count(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.asked[path]++
	if len(s.asked) == walkedPages/2 && s.asked[path] == 1 {
		close(s.half)
	}
}

// again is how many requests were not the first of their page.
func (s *sitemap) again() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, times := range s.asked {
		n += times - 1
	}
	return n
}
