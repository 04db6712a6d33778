package app_test

import (
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// house is a site whose programme the test decides: a page for each event, and a page that shows all of them at once,
// lists them in a sitemap, links them, or is their calendar.
type house struct {
	*httptest.Server

	sourceType string
	calendar   bool
	mu         sync.Mutex
	events     map[string]shown // by path
	asked      []time.Time      // for pages
}

// shown is an event as a page shows it.
type shown struct {
	title, venue string // the latter may be unknown
	start        time.Time
	cancelled    bool
}

// calendar is the kind of a house with nothing but a calendar.
const calendar = "calendar"

func newHouse(t *testing.T, sourceType string) *house {
	t.Helper()
	h := &house{sourceType: sourceType, events: map[string]shown{}}
	if sourceType == calendar {
		h.sourceType, h.calendar = "site", true
	}
	h.Server = httptest.NewServer(h)
	t.Cleanup(h.Close)
	return h
}

func (h *house) show(path string, event shown) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.events[path] = event
}

func (h *house) remove(path string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.events, path)
}

func (h *house) address() string {
	if h.calendar {
		return h.URL + "/programme.ics"
	}
	return h.URL + map[string]string{
		"site":          "/programme",
		"sitemap":       "/sitemap.xml",
		"siteIndexPage": "/programme",
	}[h.sourceType]
}

func (h *house) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if r.URL.Path != "/robots.txt" {
		h.asked = append(h.asked, time.Now())
	}
	paths := slices.Sorted(maps.Keys(h.events))
	var b strings.Builder
	event, there := h.events[r.URL.Path]
	switch {
	case r.URL.Path == "/sitemap.xml" && h.sourceType == "sitemap":
		w.Header().Set("Content-Type", "application/xml")
		b.WriteString(`<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
		for _, path := range paths {
			fmt.Fprintf(&b, "<url><loc>%s%s</loc></url>", h.URL, path)
		}
		b.WriteString("</urlset>")
	case r.URL.Path == "/programme.ics":
		w.Header().Set("Content-Type", "text/calendar; charset=utf-8")
		b.WriteString("BEGIN:VCALENDAR\r\n")
		for _, path := range paths {
			b.WriteString(h.events[path].entry(path))
		}
		b.WriteString("END:VCALENDAR\r\n")
	case r.URL.Path == "/programme":
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		b.WriteString("<html><head><title>Programme</title></head><body><h1>Programme</h1><main>")
		for _, path := range paths {
			fmt.Fprintf(&b, `<p><a href="%s">%s</a></p>`, path, h.events[path].title)
			if h.sourceType == "site" {
				b.WriteString(h.events[path].markup(path))
			}
		}
		b.WriteString("</main></body></html>")
	case there:
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprintf(&b, "<html><head><title>%s</title></head><body><h1>%[1]s</h1>%s</body></html>", event.title,
			event.markup(r.URL.Path))
	default:
		http.NotFound(w, r)
		return
	}
	_, _ = w.Write([]byte(b.String()))
}

func (s shown) markup(path string) string {
	status, location := "EventScheduled", ""
	if s.cancelled {
		status = "EventCancelled"
	}
	if s.venue != "" {
		location = fmt.Sprintf(`,"location":{"@type":"Place","name":%q,"address":{"@type":"PostalAddress",`+
			`"streetAddress":"Market 1","addressLocality":"Delft","addressCountry":"NL"}}`, s.venue)
	}
	return fmt.Sprintf(`<script type="application/ld+json">{"@context":"https://schema.org","@type":"Event","name":%q,`+
		`"url":%q,"startDate":%q,"eventStatus":"https://schema.org/%s"%s}</script>`, s.title, path,
		s.start.Format(time.RFC3339), status, location)
}

// entry is the event in a calendar.
func (s shown) entry(path string) string {
	var more string
	if s.venue != "" {
		more = "LOCATION:" + s.venue + "\r\n"
	}
	if s.cancelled {
		more += "STATUS:CANCELLED\r\n"
	}
	return fmt.Sprintf("BEGIN:VEVENT\r\nUID:%s@example.org\r\nSUMMARY:%s\r\nDTSTART:%s\r\nDURATION:PT2H\r\n"+
		"DESCRIPTION:An evening of music\r\n%sEND:VEVENT\r\n", path, s.title, s.start.UTC().Format("20060102T150405Z"), more)
}
