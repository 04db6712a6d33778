package app_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"
)

// How a programme is shown: in one calendar, or on a page for each event that a sitemap lists.
const (
	calendarPages = "calendar"
	sitemapPages  = "sitemap"
)

// The versions of a programme: of the opening alone, of all, and with a seventh of all gone, one moved and one
// cancelled.
const (
	opening = iota
	all
	changed
)

// programme is a number of sites with events, each at another address.
type programme struct {
	shown  string
	events int // of each site
	first  time.Time
	sites  []*httptest.Server

	mu      sync.Mutex
	version int
	asked   [][]time.Time // by site
}

func newProgramme(t *testing.T, shown string, sites, events int) *programme {
	t.Helper()
	p := &programme{
		shown:  shown,
		events: events,
		first:  time.Now().UTC().Truncate(24*time.Hour).AddDate(0, 0, 2),
		asked:  make([][]time.Time, sites),
	}
	for i := range sites {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { p.answer(i, w, r) }))
		t.Cleanup(server.Close)
		p.sites = append(p.sites, server)
	}
	return p
}

func (p *programme) turnTo(version int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.version = version
}

func (p *programme) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	clear(p.asked)
}

func (p *programme) sourceType() string {
	if p.shown == sitemapPages {
		return "sitemap"
	}
	return "site"
}

func (p *programme) addresses() []string {
	addresses := make([]string, len(p.sites))
	for i, site := range p.sites {
		addresses[i] = site.URL + map[string]string{calendarPages: "/programme.ics", sitemapPages: "/sitemap.xml"}[p.shown]
	}
	return addresses
}

// requests counts the pages that were asked for, and says how close to each other two of one site came.
func (p *programme) requests() (n int, closest time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	closest = time.Hour
	for _, times := range p.asked {
		n += len(times)
		for i := 1; i < len(times); i++ {
			closest = min(closest, times[i].Sub(times[i-1]))
		}
	}
	return n, closest
}

// changes counts what is other of each site in the last version.
func (p *programme) changes() (gone, moved, cancelled int) {
	return (p.events + 6) / 7, (p.events + 5) / 7, (p.events + 4) / 7
}

// show renders a version of an event.
func (p *programme) show(i, version int) (start time.Time, cancelled, there bool) {
	start = p.first.Add(time.Duration(i%(24*25)) * time.Hour)
	switch {
	case version == opening:
		return start, false, i == 0
	case version == changed && i%7 == 0:
		return start, false, false
	case version == changed && i%7 == 1:
		return start.AddDate(0, 0, 1), false, true
	}
	return start, version == changed && i%7 == 2, true
}

func (p *programme) answer(site int, w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/robots.txt" {
		http.NotFound(w, r)
		return
	}
	p.mu.Lock()
	p.asked[site] = append(p.asked[site], time.Now())
	version := p.version
	p.mu.Unlock()
	var b strings.Builder
	var number int
	switch r.URL.Path {
	case "/programme.ics":
		w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
		p.calendar(&b, version)
	case "/sitemap.xml":
		w.Header().Set("Content-Type", "application/xml")
		b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for i := range p.events {
			if _, _, there := p.show(i, version); there {
				fmt.Fprintf(&b, "<url><loc>%s/e/%d</loc></url>", p.sites[site].URL, i)
			}
		}
		b.WriteString("</urlset>")
	default:
		_, err := fmt.Sscanf(r.URL.Path, "/e/%d", &number)
		start, cancelled, there := p.show(number, version)
		if err != nil || !there {
			http.NotFound(w, r)
			return
		}
		status := "EventScheduled"
		if cancelled {
			status = "EventCancelled"
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(&b, `<html><head><title>Event %d</title><script type="application/ld+json">{"@context":"https://`+
			`schema.org","@type":"Event","name":"Event %[1]d of site %d",
			"url":"/e/%[1]d","startDate":%[3]q,"eventStatus":"https://schema.org/%s"}</script></head></html>`, number, site,
			start.Format(time.RFC3339), status)
	}
	_, _ = w.Write([]byte(b.String()))
}

func (p *programme) calendar(b *strings.Builder, version int) {
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i := range p.events {
		start, cancelled, there := p.show(i, version)
		if !there {
			continue
		}
		fmt.Fprintf(b, "BEGIN:VEVENT\r\nUID:%d@example.org\r\nSUMMARY:Event %[1]d\r\nDTSTART:%s\r\nDURATION:PT2H\r\n"+
			"DESCRIPTION:An evening of music\r\n", i, start.Format("20060102T150405Z"))
		if cancelled {
			b.WriteString("STATUS:CANCELLED\r\n")
		}
		b.WriteString("END:VEVENT\r\n")
	}
	b.WriteString("END:VCALENDAR\r\n")
}

var impatient = &http.Client{Timeout: 30 * time.Second}
