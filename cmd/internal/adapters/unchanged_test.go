package adapters_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
)

// A visit that finds nothing new costs one request for each page that it has to ask for, whether the server answers
// "not modified" or sends it again; and only the request is recorded.
func TestVisitWithoutNews(t *testing.T) {
	t.Parallel()
	event := fmt.Sprintf(`<script type="application/ld+json">{"@type":"Event","name":"Jazz","url":"/e/1",`+
		`"startDate":%q}</script>`,
		time.Now().Add(96*time.Hour).UTC().Format(time.RFC3339))
	calendar := "BEGIN:VCALENDAR\r\nBEGIN:VEVENT\r\nUID:HOST\r\nSUMMARY:Quiz\r\nDTSTART:" +
		time.Now().Add(120*time.Hour).UTC().Format("20060102T150405Z") +
		"\r\nEND:VEVENT\r\nEND:VCALENDAR\r\n"
	const html, ics, xml = "text/html", "text/calendar", "application/xml"
	type served struct{ mediaType, body string }
	for name, tt := range map[string]struct {
		sourceType, root string
		pages            map[string]served
		again            []string // requests of a visit that finds nothing new
	}{
		"a page":     {site.Type, "/", map[string]served{"/": {html, event}}, []string{"/"}},
		"a calendar": {site.Type, "/all.ics", map[string]served{"/all.ics": {ics, calendar}}, []string{"/all.ics"}},
		"a page with its calendar": {site.Type, "/", map[string]served{
			"/": {html, `<link rel="alternate" type="text/calendar" href="/all.ics">` + event}, "/all.ics": {ics, calendar},
		}, []string{"/", "/all.ics"}},
		"a page without events": {site.Type, "/", map[string]served{"/": {html, "<p>Nothing on."}}, []string{"/"}},
		"a sitemap with dates": {sitemap.Type, "/sitemap.xml", map[string]served{
			"/sitemap.xml": {xml, `<urlset><url><loc>HOST/e/1</loc><lastmod>2026-11-01</lastmod></url></urlset>`},
			"/e/1":         {html, event},
		}, []string{"/sitemap.xml"}},
		"a sitemap without": {sitemap.Type, "/sitemap.xml", map[string]served{
			"/sitemap.xml": {xml, `<urlset><url><loc>HOST/e/1</loc></url></urlset>`}, "/e/1": {html, event},
		}, []string{"/sitemap.xml", "/e/1"}},
		"a listing": {listing.Type, "/", map[string]served{
			"/": {html, `<main><a href="/e/1">Jazz</a><a href="/about">About</a></main>`}, "/e/1": {html, event},
			"/about": {html, "<p>About us"},
		}, []string{"/", "/e/1"}},
	} {
		for _, validators := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, validators %t", name, validators), func(t *testing.T) {
				t.Parallel()
				var mu sync.Mutex
				asked, answered := map[string]int{}, map[int]int{}
				var server *httptest.Server
				server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					page, there := tt.pages[r.URL.Path]
					status := http.StatusOK
					switch {
					case !there:
						status = http.StatusNotFound
					case validators && r.Header.Get("If-None-Match") == `"1"`:
						status = http.StatusNotModified
					}
					mu.Lock()
					if r.URL.Path != "/robots.txt" {
						asked[r.URL.Path]++
						answered[status]++
					}
					mu.Unlock()
					w.Header().Set("Content-Type", page.mediaType)
					if validators {
						w.Header().Set("ETag", `"1"`)
					}
					w.WriteHeader(status)
					if status == http.StatusOK {
						_, _ = w.Write([]byte(strings.ReplaceAll(page.body, "HOST", server.URL)))
					}
				}))
				lasting(t).Cleanup(server.Close)
				transport := &http.Transport{}
				t.Cleanup(transport.CloseIdleConnections)
				fetcher, err := fetch.New(fetch.Options{Transport: transport, Interval: -1})
				if err != nil {
					t.Fatal(err)
				}
				pages := site.New(fetcher, time.Now)
				w := open(t, map[string]collect.Collector{
					site.Type:    pages,
					sitemap.Type: sitemap.New(fetcher, pages),
					listing.Type: listing.New(pages),
				})
				source := w.source(command.RegisterSource{Type: tt.sourceType, URL: server.URL + tt.root})
				w.collect(source)
				w.eventuallyState(source, 1, "ok")
				recorded := len(w.recorded("happening.observed.v1")) + len(w.recorded("happening.revised.v1"))
				interval := w.listed(source).Interval
				for visit := 2; visit <= 3; visit++ {
					mu.Lock()
					clear(asked)
					clear(answered)
					mu.Unlock()
					w.collect(source)
					w.eventuallyState(source, visit, "ok")
					mu.Lock()
					for _, path := range tt.again {
						if asked[path] != 1 {
							t.Errorf("visit %d asks %d times for %s", visit, asked[path], path)
						}
						delete(asked, path)
					}
					if len(asked) > 0 {
						t.Errorf("visit %d asks for %v as well", visit, asked)
					}
					if want := map[bool]int{
						true:  http.StatusNotModified,
						false: http.StatusOK,
					}[validators]; answered[want] != len(tt.again) || len(answered) != 1 {
						t.Errorf("visit %d is answered %v", visit, answered)
					}
					mu.Unlock()
				}
				s := w.listed(source)
				if s.Pages != len(tt.again) || s.New+s.Revised+s.Stale != 0 || s.Interval <= interval {
					t.Errorf("the last walk asked for %d pages and found %d new, %d revised, %d stale; the next one is in %d s",
						s.Pages, s.New, s.Revised, s.Stale, s.Interval)
				}
				if now := len(w.recorded("happening.observed.v1")) + len(w.recorded("happening.revised.v1")); now != recorded ||
					len(w.recorded("happening.went-stale.v1")) != 0 {
					t.Errorf("%d more are recorded", now-recorded)
				}
			})
		}
	}
}
