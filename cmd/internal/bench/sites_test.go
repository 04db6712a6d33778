//go:build nightly

package bench

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/eventstore/storetest/must"
)

// sites serves at some hosts of this machine: a server each, as a host is one with its port.
func sites(b testing.TB, hosts int, answer func(host int, w http.ResponseWriter, r *http.Request)) (bases []string) {
	b.Helper()
	for host := range hosts {
		listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(b)
		server := &http.Server{
			ReadHeaderTimeout: time.Minute,
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/robots.txt" {
					http.NotFound(w, r)
					return
				}
				answer(host, w, r)
			}),
		}
		go func() { _ = server.Serve(listener) }()
		b.Cleanup(func() { _ = server.Close() })
		bases = append(bases, "http://"+listener.Addr().String())
	}
	return bases
}

// firstDay is midnight of the day after tomorrow, when the first of the shown events are.
func firstDay() time.Time { return time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2) }

// web is many sources of one page with one event each, at several hosts. Each page has a version, which decides when
// its event begins.
type web struct {
	bases []string
	first time.Time

	mu       sync.Mutex
	versions []int
	requests int // for pages, robots.txt not included
}

func newWeb(b testing.TB, sources, hosts int) *web {
	b.Helper()
	c := &web{first: firstDay(), versions: make([]int, sources)}
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
	_, _ = io.WriteString(w,
		pageOf(i, r.URL.Path, c.first.Add(time.Duration(i%(24*25))*time.Hour+time.Duration(30+version)*time.Minute)))
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

var (
	houses = strings.Fields("Theater Kulturhaus Museum Stadthalle Bibliothek Galerie Kirche Pfarrsaal")
	kinds  = strings.Fields("Quartett Trio Lesung Vernissage Kabarett Orchester Ensemble Theater Workshop Konzert " +
		"Film Tanz")
)

// nameOf makes a name of syllables, another one for each number up to a million.
func nameOf(n int) string {
	const syllables = "ba ce di fo gu la me ni po ru sa te vi zo ka le mi no pu ra"
	name, all := "", strings.Fields(syllables)
	for n = (n + 500_000) * 7919; n > 0; n /= len(all) {
		name += all[n%len(all)]
	}
	return strings.ToUpper(name[:1]) + name[1:]
}

// titleOf names an artist who comes more than once.
func titleOf(i int) string { return nameOf(i) + " " + nameOf(i/3) + " " + kinds[i%len(kinds)] }

const description = "An evening of music and words. "

// pageOf is the page of an event. No event is called after a place: a title that says only where would be one with any
// other there at that time.
func pageOf(i int, path string, start time.Time) string {
	return fmt.Sprintf(`<html><head><title>%[1]s</title></head><body><h1>%[1]s</h1><p>%[4]s</p>
<script type="application/ld+json">{"@context":"https://schema.org","@type":"Event","name":%[1]q,"url":%[2]q,`+
		`"startDate":%[3]q,"description":%[4]q,
"location":{"@type":"Place","name":"%[5]s %[6]s","address":{"@type":"PostalAddress","streetAddress":"Via %[6]s `+
		`%[7]d","addressLocality":"Bozen","addressCountry":"IT"}}}</script></body></html>`,
		titleOf(i), path, start.Format(time.RFC3339), strings.Repeat(description, 10), houses[i%len(houses)],
		nameOf(-1-i%40), i%40+1)
}

const perCalendar = 200

// calendarOf is a calendar of one house. Others show the same under titles and keys of their own.
func calendarOf(house, events int, first time.Time, others bool) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range events {
		title, uid := titleOf(house*perCalendar+i), "own"
		if others {
			title, uid = "Live: "+title, "other"
		}
		place := fmt.Sprintf("%s %s\\, Via %[2]s %d\\, Bozen", houses[house%len(houses)], nameOf(-1-house), house+1)
		start := first.Add(time.Duration(i*3%(24*25)) * time.Hour)
		_, _ = fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:%d-%d@%s.example.org\r\nSUMMARY:%s\r\nLOCATION:%s\r\nDTSTART:%s\r\n"+
			"DURATION:PT2H\r\nDESCRIPTION:%s\r\nEND:VEVENT\r\n",
			house, i, uid, title, place, start.Format("20060102T150405Z"), strings.Repeat(description, 10))
	}
	b.WriteString("END:VCALENDAR\r\n")
	return b.String()
}
