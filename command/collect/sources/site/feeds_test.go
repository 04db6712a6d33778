package site_test

import (
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"

	"carillon/command/collect"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/sources/site"
)

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
		if err != nil {
			t.Fatal(err)
		}
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
	if !slices.Equal(titles, []string{"Jazz", "Quiz"}) {
		t.Errorf("got %q", titles)
	}
	if want := []string{"/events", "/feed", "/atom", "/jazz", "/news", "/away", "/poster", "/quiz"}; !slices.Equal(p.asked,
		want) {
		t.Errorf("asked for %q, want %q", p.asked, want)
	}
	if len(other.asked) != 0 {
		t.Errorf("asked the other site for %q", other.asked)
	}
	if len(failed) != 0 {
		t.Errorf("failed: %v", failed)
	}
	if len(notes) != 4 || notes[0].Code != collect.NoteNoEvents || notes[1].Code != collect.NoteLeftOut ||
		notes[2].Code != collect.NoteLeftOut ||
		!strings.Contains(notes[3].Text, "/away was left out: it redirects") {
		t.Errorf("notes %v", notes)
	}

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
		if _, _, failed := walk(t, s, frontier.New(s.collector.Start(s.source), s.now)); !errors.Is(failed["/events"], want) {
			t.Errorf("%s gives %v", body, failed)
		}
	}
	p.files["/events"] = "application/rss+xml|<rss><channel>" + times(101, "<item><link>/%d</link></item>") +
		"</channel></rss>"
	page, err := s.collector.Read(t.Context(), s.source, collect.Known{Link: s.collector.Start(s.source)[0], Root: true})
	if err != nil || len(page.Links) != 100 || page.Links[0].Role != site.RolePage || len(page.Notes) != 1 ||
		!strings.Contains(page.Notes[0].Text, "more than 100 pages") {
		t.Errorf("%d links, %v, %v", len(page.Links), page.Notes, err)
	}
}
