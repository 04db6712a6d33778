package site_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

const calendar = `<html><head><title>Programme</title>
<script type="application/ld+json">[
{"@context":"https://schema.org","@type":"Event","name":"Jazz night","url":"/e/jazz","startDate":"2026-12-05T20:00",` +
	`"endDate":"2026-12-05T23:30","location":{"@type":"Place","name":"Kajhallen"}},
{"@context":"https://schema.org","@type":"Event","name":"Quiz","url":"/e/quiz","eventSchedule":{"@type":"Schedule",` +
	`"byDay":"Wednesday","startTime":"19:00","repeatFrequency":"P1W"}}
]</script></head><body><h1>Programme</h1></body></html>`

// served is a server on loopback with a collector of its pages.
type served struct {
	source    collect.Source
	collector *site.Collector
	now       time.Time
}

func serve(t *testing.T, handler http.HandlerFunc) *served {
	t.Helper()
	s := &served{now: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/robots.txt" {
			http.NotFound(w, r)
			return
		}
		handler(w, r)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher := must.Get(fetch.New(fetch.Options{Transport: transport, Interval: -1}))(t)
	s.collector = site.New(fetcher, func() time.Time { return s.now })
	s.source = collect.Source{
		ID:       uuid.New(),
		Type:     site.Type,
		URL:      server.URL + "/events",
		Timezone: "Europe/Copenhagen",
	}
	return s
}

func (s *served) collect(t *testing.T, from collect.State) collect.Page {
	t.Helper()
	result := must.Get(s.read(t.Context(), from))(t)
	return result
}

func (s *served) read(ctx context.Context, from collect.State) (collect.Page, error) {
	return s.collector.Read(ctx, s.source, collect.Known{Link: s.collector.Start(s.source)[0], State: from})
}

func page(contentType, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", contentType)
		w.Header().Set("ETag", `"1"`)
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, body)
	}
}

func TestCollect(t *testing.T) {
	t.Parallel()
	s := serve(t, page("text/html; charset=utf-8", calendar))
	result := s.collect(t, nil)
	must.True(t, len(result.Observations) == 2 && !result.Unchanged && result.Requests == 1 && len(result.Notes) == 0,
		"got %+v", result)
	jazz := result.Observations[0]
	host := strings.TrimPrefix(s.source.URL, "http://")
	if want := "url:" + strings.TrimSuffix(host, "events") + "e/jazz"; jazz.Key != want || len(jazz.Keys) != 1 ||
		jazz.Keys[0] != want {
		t.Errorf("key is %s, want %s", jazz.Key, want)
	}
	if want := (happening.Block{Type: "site", URL: s.source.URL}); jazz.Source != want {
		t.Errorf("source block is %+v", jazz.Source)
	}
	end := time.Date(2026, 12, 5, 22, 30, 0, 0, time.UTC)
	instance := happening.DeriveInstanceID(jazz.Key, "2026-12-05T20:00:00")
	want := []happening.Instance{{ID: instance, Status: happening.Scheduled, Occurrences: []happening.Occurrence{{
		ID:     happening.DeriveOccurrenceID(instance, 0),
		Start:  time.Date(2026, 12, 5, 19, 0, 0, 0, time.UTC),
		End:    &end,
		Status: happening.Scheduled,
	}}}}
	assert.Same(t, jazz.Details.Instances, want)
	assert.Equal(t, result.Observations[1].Details.Time.TemporalPattern, happening.Recurring, "the quiz")
}

func TestNotModified(t *testing.T) {
	t.Parallel()
	s := serve(t, page("text/html", calendar))
	first := s.collect(t, nil)
	second := s.collect(t, first.State)
	assert.True(t, second.Unchanged && len(second.Observations) == 0 && second.Requests == 1, "second: %+v", second)
	third := s.collect(t, second.State)
	assert.True(t, third.Unchanged, "the state of an unmodified page is of no use")

	source, now, state := s.source, s.now, third.State
	for name, change := range map[string]func(){
		"a new month":        func() { s.now = s.now.AddDate(0, 1, 0) },
		"another timezone":   func() { s.source.Timezone = "Europe/Paris" },
		"another address":    func() { s.source.URL += "?x=1" },
		"a state of another": func() { state = collect.State(`{"page":3}`) },
		"no state at all":    func() { state = collect.State(`?`) },
	} {
		s.source, s.now, state = source, now, third.State
		change()
		again := s.collect(t, state)
		assert.True(t, !again.Unchanged && len(again.Observations) == 2, "with %s the page isn't read again", name)
	}
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		body string
		want collect.NoteCode
	}{
		"no events":    {"<p>" + strings.Repeat("Welcome to our page. ", 20), collect.NoteNoEvents},
		"a short page": {"<p>Hello", collect.NoteNoEvents},
		"needs JavaScript": {`<div id="root"></div><noscript>You need to enable JavaScript.</noscript><script ` +
			`src="/app.js"></script>`, collect.NoteNeedsJavaScript},
		"undated": {`<script type="application/ld+json">{"@type":"Event","name":"x"}</script>` +
			strings.Repeat("text ", 99), collect.NoteSkippedEvent},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			result := serve(t, page("text/html", "<html><body>"+tt.body)).collect(t, nil)
			assert.True(t, len(result.Observations) == 0 && len(result.Notes) != 0 && result.Notes[0].Code == tt.want,
				"got %+v", result)
		})
	}
}

func TestFailures(t *testing.T) {
	t.Parallel()
	pdf := serve(t, page("application/pdf", "%PDF"))
	assert.Is(t, assert.Err(pdf.read(t.Context(), nil)), collect.ErrUnsupportedContent, "a PDF")
	deep := serve(t, page("text/html", strings.Repeat("<div>", 5000)))
	assert.Is(t, assert.Err(deep.read(t.Context(), nil)), collect.ErrUnsupportedContent, "a page that can't be parsed")
	gone := serve(t, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGone) })
	var status *collect.StatusError
	_, err := gone.read(t.Context(), nil)
	assert.True(t, errors.As(err, &status) && status.Code == http.StatusGone, "a page that is gone gives %v", err)
}

func ld(block string) string { return `<script type="application/ld+json">` + block + "</script>" }

// times repeats a piece with its number, joined by commas in JSON.
func times(n int, piece string) string {
	var b strings.Builder
	for i := range n {
		if i > 0 && (piece[0] == '{' || piece[0] == '"') {
			b.WriteByte(',')
		}
		fmt.Fprintf(&b, piece, i)
	}
	return b.String()
}

const (
	unlinked = `<html><head><title>Programme</title><script type="application/ld+json">[
{"@context":"https://schema.org","@type":"Event","name":"Jazz night","startDate":"2026-12-05T20:00"},
{"@context":"https://schema.org","@type":"Event","name":"Talk","startDate":"2026-12-06T20:00",` +
		`"eventAttendanceMode":"OnlineEventAttendanceMode"}
]</script></head><body></body></html>`
	unlinkedCalendar = "BEGIN:VCALENDAR\r\nVERSION:2.0\r\nPRODID:-//x//x//EN\r\nBEGIN:VEVENT\r\nUID:1@example\r\n" +
		"SUMMARY:Jazz night\r\n" +
		"DTSTART:20261205T190000Z\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
)

// The address of a source may be a secret: a calendar's is never visible, and another page's query is not.
func TestPrivateAddresses(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		media, body, path  string
		wantURL, wantBlock string
	}{
		"a page":     {"text/html", unlinked, "/events?token=s3cret&page=2", "/events", "/events"},
		"a calendar": {"text/calendar", unlinkedCalendar, "/private-s3cret/basic.ics?token=s3cret", "", "/"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, page(tt.media, tt.body))
			server := strings.TrimSuffix(s.source.URL, "/events")
			s.source.URL = server + tt.path
			read := s.collect(t, collect.State(nil))
			must.True(t, len(read.Observations) != 0, "nothing was read: %v", read.Notes)
			for _, o := range read.Observations {
				text, err := json.Marshal([]any{o.Details, o.Source})
				assert.True(t, err == nil && !strings.Contains(string(text), "s3cret"), "%s (%v)", text, err)
				want := tt.wantURL
				if want != "" {
					want = server + want
				}
				assert.True(t, o.Details.PrimaryURL == want && o.Source.URL == server+tt.wantBlock,
					"primary URL %q, source %q", o.Details.PrimaryURL, o.Source.URL)
			}
		})
	}
}

// paths serves files by path, and records requests. "{}" in a file stands for the server's address.
type paths struct {
	mu    sync.Mutex
	files map[string]string
	asked []string
}

func (p *paths) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, r.URL.Path)
	file, ok := p.files[r.URL.Path]
	switch kind, body, _ := strings.Cut(file, "|"); {
	case !ok:
		http.NotFound(w, r)
	case kind == "to":
		http.Redirect(w, r, body, http.StatusFound)
	default:
		w.Header().Set("Content-Type", kind)
		_, _ = io.WriteString(w, strings.ReplaceAll(body, "{}", "http://"+r.Host))
	}
}

// walk walks through a source. It returns the titles of its events.
func walk(t *testing.T, s *served, m *frontier.Memory) (titles []string, notes collect.Notes, failed map[string]error) {
	t.Helper()
	failed = map[string]error{}
	for visited, err := range collect.Walk(t.Context(), s.collector, s.source, m) {
		must.OK(t, err)
		if visited.Err != nil {
			failed[visited.Known.Address[strings.LastIndex(visited.Known.Address, "/"):]] = visited.Err
		}
		m.Record(visited, s.now)
		notes = append(notes, visited.Page.Notes...)
		for _, o := range visited.Page.Observations {
			titles = append(titles, o.Details.Title)
		}
	}
	return titles, notes, failed
}

func eventPage(title string) string {
	return `text/html|<title>` + title + `</title><link rel=alternate type=application/rss+xml href=/endless><script ` +
		`type="application/ld+json">{"@type":"Event","name":"` +
		title + `","startDate":"2026-12-05T20:00"}</script>`
}

// The feeds of a page find pages of its site, and nothing else.
func TestFeeds(t *testing.T) {
	t.Parallel()
	other := &paths{}
	elsewhere := serve(t, other.ServeHTTP)
	there := strings.TrimSuffix(elsewhere.source.URL, "/events")
	p := &paths{files: map[string]string{
		"/events": `text/html|<head><link rel=alternate type="application/rss+xml" href="/feed"><link rel="alternate" ` +
			`type="application/atom+xml; charset=utf-8" href="{}/atom">
			<link rel=alternate type=application/rss+xml title="Kajhallen » Comments Feed" href=/comments><link rel=alternate ` +
			`type=application/rss+xml href=/comments/feed>
			<link rel=alternate type=application/rss+xml href=` + there +
			`/feed><link rel=stylesheet type=application/rss+xml href=/style></head><a href="/other">x</a>`,
		"/feed": `text/html|<rss><channel><item><title>Concert on 5 December 2026</title><link>{}/jazz</link>` +
			`<pubDate>Sat, 05 Dec 2026 20:00:00 +0000</pubDate></item>
			<item><link>` + there + `/jazz</link></item><item><link>file:///etc/passwd</link></item><item>` +
			`<link>{}/news</link></item><item><link>{}/away</link></item>
			<item><link>{}/poster</link></item></channel></rss>`,
		"/atom": `application/atom+xml|<feed xmlns="http://www.w3.org/2005/Atom"><entry><link href="{}/jazz"/></entry>` +
			`<entry><link href="/quiz"/></entry></feed>`,
		"/jazz":    eventPage("Jazz"),
		"/quiz":    eventPage("Quiz"),
		"/news":    "text/html|" + strings.Repeat("We have news. ", 40),
		"/poster":  "application/pdf|%PDF",
		"/away":    "to|" + there + "/jazz",
		"/endless": "application/rss+xml|<rss><channel><item><link>/more</link></item></channel></rss>",
	}}
	s := serve(t, p.ServeHTTP)
	m := frontier.New(s.collector.Start(s.source), s.now)
	titles, notes, failed := walk(t, s, m)
	assert.Slices(t, titles, []string{"Jazz", "Quiz"}, "titles")
	want := []string{"/events", "/feed", "/atom", "/jazz", "/news", "/away", "/poster", "/quiz"}
	assert.True(t, slices.Equal(p.asked, want), "asked for %q, want %q", p.asked, want)
	assert.Equal(t, len(other.asked), 0, "asked the other site for %q", other.asked)
	assert.Equal(t, len(failed), 0, "failed: %v", failed)
	assert.True(t, len(notes) == 4 && notes[0].Code == collect.NoteNoEvents && notes[1].Code == collect.NoteLeftOut &&
		notes[2].Code == collect.NoteLeftOut && strings.Contains(notes[3].Text, "/away was left out: it redirects"),
		"notes %v", notes)

	// A post that is no longer in the feed stays with the source.
	p.files["/feed"], p.files["/atom"], p.asked = "text/xml|<rss><channel></channel></rss>", "text/xml|<rss/>", nil
	m.Begin(s.collector.Start(s.source), s.now)
	if titles, _, _ = walk(t, s, m); !slices.Equal(titles, []string{"Jazz", "Quiz"}) || slices.Contains(p.asked, "/news") {
		t.Errorf("then %q, asked for %q", titles, p.asked)
	}
}

// A source may be a feed itself.
func TestFeedAsASource(t *testing.T) {
	t.Parallel()
	p := &paths{files: map[string]string{"/events": "application/rss+xml|<rss><channel><item><link>/jazz</link></item>" +
		"</channel></rss>", "/jazz": eventPage("Jazz")}}
	s := serve(t, p.ServeHTTP)
	if titles, notes, failed := walk(t, s, frontier.New(s.collector.Start(s.source), s.now)); !slices.Equal(titles,
		[]string{"Jazz"}) || len(notes)+len(failed) != 0 {
		t.Errorf("got %q, %v, %v", titles, notes, failed)
	}
	for body, want := range map[string]error{
		"application/xml|<urlset><url><loc>/jazz</loc></url></urlset>": collect.ErrUnsupportedContent,
		"application/xml|<html></html>":                                collect.ErrUnsupportedContent,
	} {
		p.files["/events"] = body
		_, _, failed := walk(t, s, frontier.New(s.collector.Start(s.source), s.now))
		assert.True(t, errors.Is(failed["/events"], want), "%s gives %v", body, failed)
	}
	p.files["/events"] = "application/rss+xml|<rss><channel>" + times(101, "<item><link>/%d</link></item>") +
		"</channel></rss>"
	page, err := s.collector.Read(t.Context(), s.source, collect.Known{Link: s.collector.Start(s.source)[0], Root: true})
	assert.True(t, err == nil && len(page.Links) == 100 && page.Links[0].Role == site.RolePage && len(page.Notes) == 1 &&
		strings.Contains(page.Notes[0].Text, "more than 100 pages"), "%d links, %v, %v", len(page.Links), page.Notes, err)
}
