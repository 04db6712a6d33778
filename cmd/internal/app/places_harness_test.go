package app_test

import (
	"bytes"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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

// account is an account on Facebook, whose API answers as its documentation describes. The test decides its posts.
type account struct {
	*httptest.Server
	t *testing.T

	mu            sync.Mutex
	events, posts []map[string]any // the newest first
}

const (
	accountName  = "kajhallen"
	accountToken = "s3cret-of-facebook"
	facebookTime = "2006-01-02T15:04:05-0700"
)

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{t: t}
	a.Server = httptest.NewServer(a)
	t.Cleanup(a.Close)
	return a
}

// access sets how a server reaches the account.
func (a *account) access(platforms *config.Platforms) {
	platforms.Bases = map[string]string{"facebook": a.URL}
	platforms.Tokens.Secret = "facebook=" + accountToken
	must.OK(a.t, platforms.Validate())
}

// hold adds an event of the platform.
func (a *account) hold(title string, start time.Time) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.events = append(a.events, map[string]any{
		"id": "1", "name": title, "start_time": start.Format(facebookTime), "timezone": "Europe/Amsterdam", "type": "public",
	})
}

// post adds a post, which may announce an event.
func (a *account) post(id, text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.posts = append([]map[string]any{{
		"id": id, "message": text, "created_time": time.Now().UTC().Format(facebookTime),
		"permalink_url": "https://www.facebook.com/1/posts/" + id,
		"from":          map[string]any{"id": "1", "name": "Kajhallen"},
	}}, a.posts...)
}

func (a *account) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	a.mu.Lock()
	defer a.mu.Unlock()
	token := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
	data, known := map[string]any{"/events": a.events, "/posts": a.posts}[strings.TrimPrefix(r.URL.Path, "/"+accountName)]
	if !known || token != accountToken && r.FormValue("access_token") != accountToken {
		a.t.Errorf("asked for %s, by its token: %t", r.URL.Path, known)
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.MarshalWrite(w, map[string]any{"data": data})
}

// expectNoSecrets looks into everything that was recorded.
func (c *collecting) expectNoSecrets(secrets ...string) {
	c.Helper()
	for m, err := range c.events.Subscribe(c.Context(), eventstore.Start, eventstore.Filter{}) {
		switch {
		case err != nil:
			c.Fatal(err)
		case m.CaughtUp:
			return
		case m.Event != nil:
			for _, secret := range secrets {
				assert.True(c, !bytes.Contains(m.Event.Data, []byte(secret)) && !bytes.Contains(m.Event.Metadata, []byte(secret)),
					"a token is in %s", m.Event.Type)
			}
		}
	}
}
