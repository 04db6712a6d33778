package app_test

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// BenchmarkIngest: so many happenings, 200 of a calendar, from the moment on when the calendars are due until all are in
// the feed's list. As a backfill they are told to nobody; as news each is published as well; told is what is known
// already, by calendars of others with keys and titles of their own, until all is merged.
func BenchmarkIngest(b *testing.B) {
	for _, way := range []string{"backfill", "news", "told"} {
		b.Run(way, func(b *testing.B) { ingest(b, way) })
	}
}

const perCalendar = 200

func ingest(b *testing.B, way string) {
	calendars := (b.N + perCalendar - 1) / perCalendar
	want := calendars * perCalendar
	var open, again atomic.Bool
	first := time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2)
	answer := func(others bool) func(int, http.ResponseWriter, *http.Request) {
		return func(host int, w http.ResponseWriter, _ *http.Request) {
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
		}
	}
	of := func(bases []string) []string {
		for i := range bases {
			bases[i] += "/programme.ics"
		}
		return bases
	}
	w := newWatching(b, true)
	feed := w.feed()
	w.attach("site", of(sites(b, calendars, answer(false))), feed)
	if way == "told" {
		w.attach("site", of(sites(b, calendars, answer(true))), feed)
	}
	w.visited(time.Time{})

	b.ResetTimer()
	w.measure()
	open.Store(true)
	began := time.Now()
	w.due()
	merged := func() int { return w.count("SELECT count(*) FROM items.merged") }
	w.until("all are in the feed's list", time.Hour, func() bool { return w.total(feed)+merged() == want })
	if way == "told" {
		w.visited(time.Time{})
		before := merged()
		w.measure()
		again.Store(true)
		began = time.Now()
		w.visited(w.due())
		b.ReportMetric(100*float64(merged()-before)/float64(want), "%-merged")
	}
	took := time.Since(began)
	b.StopTimer()
	w.report(want, "happening")
	b.ReportMetric(float64(want)/took.Seconds(), "happenings/s")
	b.ReportMetric(2000, "floor/s")
	b.ReportMetric(load(), "load")
}

// visited waits until all sources were visited since a time and are at rest, and what they showed is taken in.
func (w *watching) visited(since time.Time) {
	w.Helper()
	w.until("all are visited", time.Hour, func() bool {
		return w.count(`SELECT count(*) FROM sources.sources s LEFT JOIN carillon.source_walks w ON w.source_id = s.id
			WHERE w.source_id IS NULL OR w.attempted_at IS NULL OR w.attempted_at < $1 OR w.holder IS NOT NULL OR s.wanted_at IS NOT NULL`, since) == 0
	})
	w.until("all is taken in", time.Hour, w.caughtUp)
}

// load is how many processes want a processor of this machine, on average over a minute.
func load() (n float64) {
	text, _ := os.ReadFile("/proc/loadavg")
	_, _ = fmt.Sscan(string(text), &n)
	return n
}

// nameOf makes a name of syllables, another one for each number up to a million.
func nameOf(n int) string {
	const syllables = "ba ce di fo gu la me ni po ru sa te vi zo ka le mi no pu ra"
	name, all := "", strings.Fields(syllables)
	for n = (n + 500_000) * 7919; n > 0; n /= len(all) {
		name += all[n%len(all)]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

var (
	houses = strings.Fields("Theater Kulturhaus Museum Stadthalle Bibliothek Galerie Kirche Pfarrsaal")
	kinds  = strings.Fields("Quartett Trio Lesung Vernissage Kabarett Orchester Ensemble Theater Workshop Konzert Film Tanz")
)

// calendarOf is a calendar of one house. Others tell the same under titles and keys of their own.
func calendarOf(house, events int, first time.Time, others bool) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range events {
		n := house*perCalendar + i
		title := nameOf(n) + " " + nameOf(n/3) + " " + kinds[n%len(kinds)] // somebody who comes more than once
		place, uid := fmt.Sprintf("%s %s\\, Via %[2]s %d\\, Bozen", houses[house%len(houses)], nameOf(-1-house), house+1), "own"
		if others {
			title, uid = "Live: "+title, "other"
		}
		start := first.Add(time.Duration(i*3%(24*25)) * time.Hour)
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d-%d@%s.example.org\r\nSUMMARY:%s\r\nLOCATION:%s\r\nDTSTART:%s\r\nDURATION:PT2H\r\nDESCRIPTION:%s\r\nEND:VEVENT\r\n",
			house, i, uid, title, place, start.Format("20060102T150405Z"), strings.Repeat("An evening of music and words. ", 10))
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}
