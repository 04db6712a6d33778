// Package walktest walks through the pages of a site on loopback in tests, with any collector of the web.
package walktest

import (
	"bytes"
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/frontier"
	"carillon/eventstore/storetest/must"
)

// Now is the time of walks unless a test sets another.
var Now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// Site is a server of files and pages, with a collector of them.
type Site struct {
	*httptest.Server

	Collector  collect.Collector
	sourceType string
	mu         sync.Mutex
	files      map[string]string
	handlers   map[string]http.HandlerFunc
	asked      []string
}

// Serve starts a server. Files are by path and query; "{}" in one stands for the server's address. A file that begins
// as HTML is served as such.
func Serve(t testing.TB, sourceType string, files map[string]string,
	collector func(*fetch.Fetcher) collect.Collector) *Site {
	t.Helper()
	s := &Site{sourceType: sourceType, files: map[string]string{}, handlers: map[string]http.HandlerFunc{}}
	for path, file := range files {
		s.files[path] = file
	}
	s.Server = httptest.NewServer(http.HandlerFunc(s.serve))
	t.Cleanup(s.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher := must.Get(fetch.New(fetch.Options{Transport: transport, Interval: -1, Timeout: 30 * time.Minute}))(t)
	s.Collector = collector(fetcher)
	return s
}

// Set replaces a file.
func (s *Site) Set(path, file string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.files[path] = file
}

// Handle sets the handler of a path, "*" for all without one. Calls are serialized.
func (s *Site) Handle(path string, handler http.HandlerFunc) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.handlers[path] = handler
}

// Asked returns the requests since its last call, without those for robots.txt.
func (s *Site) Asked() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	asked := s.asked
	s.asked = nil
	return asked
}

func (s *Site) serve(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	file, isFile := s.files[r.URL.RequestURI()]
	handler := s.handlers[r.URL.Path]
	if handler == nil && !isFile && r.URL.Path != "/robots.txt" {
		handler = s.handlers["*"]
	}
	if r.URL.Path != "/robots.txt" {
		s.asked = append(s.asked, r.URL.RequestURI())
	}
	s.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case !isFile:
		http.NotFound(w, r)
	default:
		if strings.HasPrefix(file, "<html>") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(file, "{}", s.URL))
	}
}

// Source returns a source at the server.
func (s *Site) Source(path string) collect.Source {
	return collect.Source{
		ID:       uuid.New(),
		Type:     s.sourceType,
		URL:      s.URL + path,
		Timezone: "Europe/Copenhagen",
	}
}

// Walked is the result of a walk.
type Walked struct {
	Titles, Asked []string
	Observations  []collect.Observation
	Notes         collect.Notes
	// Failed has the errors by path.
	Failed map[string]error
	// Partial are the paths of pages that were read partially.
	Partial []string
}

// Walk walks a source for the first time.
func (s *Site) Walk(t testing.TB, path string) Walked {
	t.Helper()
	source := s.Source(path)
	return s.WalkOn(t, source, frontier.New(s.Collector.Start(source), Now), Now)
}

// WalkOn walks through a source with a frontier.
func (s *Site) WalkOn(t testing.TB, source collect.Source, m *frontier.Memory, now time.Time) Walked {
	t.Helper()
	s.Asked()
	found := Walked{Failed: map[string]error{}}
	for visited, err := range collect.Walk(t.Context(), s.Collector, source, m) {
		must.OK(t, err)
		path := strings.TrimPrefix(visited.Known.Address, s.URL)
		if visited.Err != nil {
			found.Failed[path] = visited.Err
		}
		if visited.Page.Partial {
			found.Partial = append(found.Partial, path)
		}
		m.Record(visited, now)
		found.Notes = append(found.Notes, visited.Page.Notes...)
		for _, o := range visited.Page.Observations {
			found.Titles = append(found.Titles, o.Details.Title)
			found.Observations = append(found.Observations, o)
		}
	}
	found.Asked = s.Asked()
	return found
}

// Noted reports whether there is a note with a code and a text.
func (w Walked) Noted(code collect.NoteCode, text string) bool {
	return slices.ContainsFunc(w.Notes, func(n collect.Note) bool {
		return n.Code == code && strings.Contains(n.Text, text)
	})
}

// Event returns a page about an event.
func Event(title string) string {
	return "<html><title>" + title + "</title><h1>" + title + "</h1>" + JSONLD(title, "") + strings.Repeat("words ", 50)
}

// JSONLD returns an event with an optional address.
func JSONLD(title, address string) string {
	return `<script type="application/ld+json">{"@type":"Event","name":"` + title + `","url":"` + address +
		`","startDate":"2026-12-05T20:00","location":"Kajhallen"}</script>`
}

// Plain returns a page without events.
func Plain(html string) string { return "<html>" + html + strings.Repeat("words ", 50) }

// Zipped returns a text compressed by gzip.
func Zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	must.Get(z.Write([]byte(text)))(t)
	must.OK(t, z.Close())
	return b.String()
}
