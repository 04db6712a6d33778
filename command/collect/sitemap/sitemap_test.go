package sitemap_test

import (
	"bytes"
	"compress/gzip"
	"context"
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
	"carillon/command/collect/fetch"
	"carillon/command/collect/frontier"
	"carillon/command/collect/site"
	"carillon/command/collect/sitemap"
)

var now = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

// web is a server of files and pages, with what was asked of it.
type web struct {
	*httptest.Server

	collector *sitemap.Collector
	mu        sync.Mutex
	files     map[string]string
	handlers  map[string]http.HandlerFunc
	asked     []string
}

// serve begins a server. In the files, "{}" stands for its address.
func serve(t testing.TB, files map[string]string) *web {
	t.Helper()
	w := &web{files: files, handlers: map[string]http.HandlerFunc{}}
	w.Server = httptest.NewServer(w)
	t.Cleanup(w.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	fetcher, err := fetch.New(fetch.Options{Transport: transport, Interval: -1})
	if err != nil {
		t.Fatal(err)
	}
	w.collector = sitemap.New(fetcher, site.New(fetcher, func() time.Time { return now }))
	return w
}

func (s *web) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	file, ok := s.files[r.URL.RequestURI()]
	handler := s.handlers[r.URL.Path]
	if handler == nil {
		handler = s.handlers["*"]
	}
	if r.URL.Path != "/robots.txt" {
		s.asked = append(s.asked, r.URL.RequestURI())
	}
	s.mu.Unlock()
	switch {
	case handler != nil:
		handler(w, r)
	case !ok:
		http.NotFound(w, r)
	default:
		if strings.HasPrefix(file, "<html>") {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
		}
		_, _ = io.WriteString(w, strings.ReplaceAll(file, "{}", s.URL))
	}
}

func (s *web) source(path string) collect.Source {
	return collect.Source{ID: uuid.New(), Type: sitemap.Type, URL: s.URL + path, Timezone: "Europe/Copenhagen"}
}

// walked is what came of a walk.
type walked struct {
	titles, asked []string
	notes         collect.Notes
	failed        map[string]error
	observations  []collect.Observation
}

// walk goes through the pages of a source.
func (s *web) walk(t testing.TB, source collect.Source, m *frontier.Memory, now time.Time) (found walked) {
	t.Helper()
	s.mu.Lock()
	s.asked = nil
	s.mu.Unlock()
	found.failed = map[string]error{}
	for visited, err := range collect.Walk(t.Context(), s.collector, source, m) {
		if err != nil {
			t.Fatal(err)
		}
		if visited.Err != nil {
			found.failed[strings.TrimPrefix(visited.Known.Address, s.URL)] = visited.Err
		}
		m.Record(visited, now)
		found.notes = append(found.notes, visited.Page.Notes...)
		for _, o := range visited.Page.Observations {
			found.titles = append(found.titles, o.Details.Title)
			found.observations = append(found.observations, o)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found.asked = slices.Clone(s.asked)
	return found
}

func (s *web) collect(t testing.TB, path string) walked {
	t.Helper()
	source := s.source(path)
	return s.walk(t, source, frontier.New(s.collector.Start(source), now), now)
}

func event(title string) string {
	return "<html><title>" + title + "</title><h1>" + title + `</h1><script type="application/ld+json">{"@type":"Event","name":"` + title +
		`","startDate":"2026-12-05T20:00","location":"Kajhallen"}</script>` + strings.Repeat("words ", 50)
}

func urlset(addresses ...string) string {
	var b strings.Builder
	b.WriteString(`<?xml version="1.0" encoding="UTF-8"?><urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">`)
	for _, address := range addresses {
		address, modified, _ := strings.Cut(address, " ")
		fmt.Fprintf(&b, "<url><loc>%s</loc>", address)
		if modified != "" {
			fmt.Fprintf(&b, "<lastmod>%s</lastmod>", modified)
		}
		b.WriteString("</url>\n")
	}
	return b.String() + "</urlset>"
}

func index(addresses ...string) string {
	return strings.NewReplacer("urlset", "sitemapindex", "<url>", "<sitemap>", "</url>", "</sitemap>").Replace(urlset(addresses...))
}

func zipped(t testing.TB, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	if _, err := z.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func (w walked) note(code collect.NoteCode, part string) bool {
	return slices.ContainsFunc(w.notes, func(n collect.Note) bool { return n.Code == code && strings.Contains(n.Text, part) })
}

// The address is that of a sitemap, of an index or of a site.
func TestAddresses(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/jazz": event("Jazz"), "/quiz?week=1": event("Quiz"), "/": event("Front")}
	for name, tt := range map[string]struct {
		path  string
		files map[string]string
		want  []string
	}{
		"a sitemap":             {"/map.xml", map[string]string{"/map.xml": urlset("{}/jazz", "{}/quiz?week=1")}, []string{"Jazz", "Quiz"}},
		"its own front page":    {"/map.xml", map[string]string{"/map.xml": urlset("{}", "{}/jazz")}, []string{"Front", "Jazz"}},
		"a text":                {"/map.txt", map[string]string{"/map.txt": "{}/jazz\n{}/quiz?week=1\n"}, []string{"Jazz", "Quiz"}},
		"a zip":                 {"/map.xml.gz", nil, []string{"Jazz"}},
		"a feed":                {"/feed", map[string]string{"/feed": "<rss><channel><item><link>{}/jazz</link></item></channel></rss>"}, []string{"Jazz"}},
		"an index":              {"/index", map[string]string{"/index": index("{}/a.xml", "/b.xml"), "/a.xml": urlset("{}/jazz"), "/b.xml": urlset("{}/quiz?week=1")}, []string{"Jazz", "Quiz"}},
		"a site with robots":    {"", map[string]string{"/robots.txt": "Sitemap: {}/a.xml\nsitemap: /b.xml\n", "/a.xml": urlset("{}/jazz"), "/b.xml": urlset("{}/")}, []string{"Jazz", "Front"}},
		"a site without":        {"/", map[string]string{"/sitemap.xml": urlset("{}/jazz", "{}/")}, []string{"Jazz", "Front"}},
		"a page of a site":      {"/jazz", map[string]string{"/sitemap.xml": index("{}/b.xml"), "/b.xml": urlset("{}/quiz?week=1")}, []string{"Quiz"}},
		"one page by two names": {"/map.xml", map[string]string{"/map.xml": urlset("{}/jazz", "{}/jazz#tickets", "{}/jazz/?utm_source=x", "{}/jazz?PHPSESSID=1")}, []string{"Jazz"}},
		"a loop":                {"/a", map[string]string{"/a": index("{}/b", "{}/a"), "/b": index("{}/a", "{}/c"), "/c": urlset("{}/jazz")}, []string{"Jazz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"/map.xml.gz": zipped(t, urlset("/jazz"))}
			for path, file := range pages {
				files[path] = file
			}
			for path, file := range tt.files {
				files[path] = file
			}
			found := serve(t, files).collect(t, tt.path)
			if !slices.Equal(found.titles, tt.want) || len(found.notes) != 0 || len(found.failed) != 0 {
				t.Errorf("got %q, notes %v, failed %v", found.titles, found.notes, found.failed)
			}
			for _, o := range found.observations {
				if o.Standing != happening.FromOwnPage || o.Source.Type != sitemap.Type || !strings.HasSuffix(o.Source.URL, tt.path) {
					t.Errorf("%s: standing %d, source %+v", o.Details.Title, o.Standing, o.Source)
				}
			}
		})
	}
}

func TestNothingToRead(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		files map[string]string
		want  error
	}{
		"no sitemap":              {map[string]string{}, collect.ErrHTTPStatus},
		"a page in its place":     {map[string]string{"/sitemap.xml": "<html>Not found"}, collect.ErrUnsupportedContent},
		"robots.txt keeps us off": {map[string]string{"/robots.txt": "User-agent: *\nDisallow: /", "/sitemap.xml": urlset("{}/jazz")}, collect.ErrRobotsDisallowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := serve(t, tt.files).collect(t, "/")
			if len(found.failed) != 1 || !errors.Is(found.failed["/robots.txt"], tt.want) {
				t.Errorf("failed %v", found.failed)
			}
		})
	}
	s := serve(t, map[string]string{"/page": event("Jazz")})
	if found := s.collect(t, "/page"); !errors.Is(found.failed["/page"], collect.ErrUnsupportedContent) {
		t.Errorf("a page that is no sitemap, of a site without: %v", found.failed)
	}
}

// What a sitemap lists beside the pages of its site is not asked for, nor what a page of it redirects to.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	other := serve(t, map[string]string{"/jazz": event("Elsewhere"), "/robots.txt": "User-agent: *\nDisallow: /"})
	s := serve(t, map[string]string{
		"/jazz":       event("Jazz"),
		"/robots.txt": "Sitemap: {}/map.xml\nSitemap: " + other.URL + "/map.xml\nSitemap: ftp://x/map.xml",
		"/map.xml": urlset(other.URL+"/jazz", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data", "http://[::1]:1/x", "file:///etc/passwd", "javascript:alert(1)",
			"http://user:password@example.org/", "//other.example/x", "/poster.jpg", "{}/programme.pdf", "{}/away", "{}/jazz", "{}/"+strings.Repeat("x", 3000)),
		"/index.xml": index(other.URL+"/map.xml", "file:///etc/passwd"),
	})
	s.handlers["/away"] = func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other.URL+"/jazz", http.StatusFound) }
	found := s.collect(t, "/")
	if !slices.Equal(found.titles, []string{"Jazz"}) || !slices.Equal(found.asked, []string{"/map.xml", "/away", "/jazz"}) {
		t.Errorf("got %q, asked %q", found.titles, found.asked)
	}
	if !found.note(collect.NoteLeftOut, "5 addresses of other sites") || !found.note(collect.NoteLeftOut, "4 addresses were left out that are none of the web") ||
		!found.note(collect.NoteLeftOut, "1 addresses of other sites") {
		t.Errorf("notes %v", found.notes)
	}
	if len(found.failed) != 1 || !errors.Is(found.failed["/away"], collect.ErrBadURL) {
		t.Errorf("failed %v", found.failed)
	}
	if found := s.collect(t, "/index.xml"); len(found.asked) != 1 || !found.note(collect.NoteLeftOut, "1 addresses of other sites") {
		t.Errorf("asked %q, notes %v", found.asked, found.notes)
	}
	if len(other.asked) != 0 {
		t.Errorf("the other site was asked for %q", other.asked)
	}
}

// A file that has not changed is not read again, by validators or by its digest, and still links its pages.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	for name, validators := range map[string]bool{"validators": true, "digest": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]string{"/jazz": event("Jazz"), "/quiz": event("Quiz"), "/about": "<html>" + strings.Repeat("words ", 99)})
			body := urlset(s.URL+"/jazz", s.URL+"/quiz 2026-11-01", s.URL+"/about")
			s.handlers["/map.xml"] = func(w http.ResponseWriter, r *http.Request) {
				if validators {
					w.Header().Set("ETag", `"1"`)
					if r.Header.Get("If-None-Match") == `"1"` {
						w.WriteHeader(http.StatusNotModified)
						return
					}
				}
				_, _ = io.WriteString(w, body)
			}
			source := s.source("/map.xml")
			m := frontier.New(s.collector.Start(source), now)
			if first := s.walk(t, source, m, now); !slices.Equal(first.asked, []string{"/map.xml", "/jazz", "/quiz", "/about"}) {
				t.Fatalf("first asked %q", first.asked)
			}
			later := now.Add(time.Hour)
			m.Begin(s.collector.Start(source), later)
			if second := s.walk(t, source, m, later); !slices.Equal(second.asked, []string{"/map.xml", "/jazz"}) {
				t.Errorf("second asked %q", second.asked)
			}
			// lastmod says what to read; a page that is listed no more is gone.
			body, validators = urlset(s.URL+"/quiz 2026-11-22"), false
			m.Begin(s.collector.Start(source), later)
			if third := s.walk(t, source, m, later); !slices.Equal(third.asked, []string{"/map.xml", "/quiz"}) {
				t.Errorf("third asked %q", third.asked)
			}
			if gone := m.Unlisted(); !slices.Equal(gone, []string{s.URL + "/about", s.URL + "/jazz"}) {
				t.Errorf("gone %q", gone)
			}
		})
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	numbered := func(n int, format string) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return all
	}
	read := func(s *web, path string) collect.Page {
		t.Helper()
		source := s.source(path)
		page, err := s.collector.Read(t.Context(), source, collect.Known{Link: s.collector.Start(source)[0], Root: true})
		if err != nil {
			t.Fatal(err)
		}
		return page
	}
	noted := func(page collect.Page, part string) bool {
		return page.Partial && walked{notes: page.Notes}.note(collect.NoteTruncated, part)
	}
	s := serve(t, map[string]string{
		"/many":  urlset(numbered(50_001, "{}/%d")...),
		"/files": index(numbered(1500, "{}/%d.xml")...),
		"/large": urlset("{}/1") + strings.Repeat("<!--"+strings.Repeat("x", 100_000)+"-->", 525),
		"/cut":   urlset("{}/1", "{}/2")[:150],
		"/long":  urlset(numbered(30_000, "{}/"+strings.Repeat("x", 1000)+"%d")...),
	})
	if page := read(s, "/many"); len(page.Links) != 50_000 || !noted(page, "more than 50000 addresses") {
		t.Errorf("many: %d links, %v", len(page.Links), page.Notes)
	}
	if page := read(s, "/files"); len(page.Links) != 999 || !noted(page, "a source may have 1000 in all") {
		t.Errorf("files: %d links, %v", len(page.Links), page.Notes)
	}
	if page := read(s, "/large"); len(page.Links) != 1 || !noted(page, "larger than 50 MB") {
		t.Errorf("large: %d links, %v", len(page.Links), page.Notes)
	}
	if page := read(s, "/cut"); len(page.Links) != 1 || !noted(page, "it can't be read from byte") {
		t.Errorf("cut: %d links, %v", len(page.Links), page.Notes)
	}
	if page := read(s, "/long"); len(page.Links) < 10_000 || !noted(page, "too long") {
		t.Errorf("long: %d links, %v", len(page.Links), page.Notes)
	}
}

// No nesting of indexes leads to more files than a source may have.
func TestEndlessIndexes(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 30} {
		s := serve(t, nil)
		files := 0
		s.handlers["*"] = func(w http.ResponseWriter, r *http.Request) {
			files++
			var further []string
			for i := range width {
				further = append(further, fmt.Sprintf("%s%s%d/", s.URL, r.URL.Path, i))
			}
			_, _ = io.WriteString(w, index(further...))
		}
		s.handlers["/robots.txt"] = http.NotFound
		if width == 1 {
			s.handlers["*"] = func(w http.ResponseWriter, r *http.Request) {
				files++
				_, _ = io.WriteString(w, index(fmt.Sprintf("%s/%dx/", s.URL, files)))
			}
		}
		found := s.collect(t, "/map/")
		if files > 1000 || files < 31 || !found.note(collect.NoteTruncated, "1000 in all") {
			t.Errorf("%d in each index: %d files, %v", width, files, found.notes)
		}
	}
}

// A server that sends a file without end, and one that hangs in the middle of one, are left.
func TestSlowFile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.handlers["/hangs"] = func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(urlset(s.URL+"/1"), "</urlset>"))
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	source := s.source("/hangs")
	if _, err := s.collector.Read(ctx, source, collect.Known{Link: s.collector.Start(source)[0], Root: true}); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("got %v", err)
	}
}

// BenchmarkWalkSitemap walks a sitemap of 5,000 pages at a server that needs no pause.
func BenchmarkWalkSitemap(b *testing.B) {
	files, addresses := map[string]string{}, make([]string, 5000)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("{}/events/%d", i)
		files[fmt.Sprintf("/events/%d", i)] = event(fmt.Sprintf("Event number %d", i))
	}
	files["/map.xml"] = urlset(addresses...)
	s := serve(b, files)
	for b.Loop() {
		if found := s.collect(b, "/map.xml"); len(found.titles) != 5000 || len(found.failed) != 0 {
			b.Fatalf("%d events, %d failed", len(found.titles), len(found.failed))
		}
	}
	b.ReportMetric(float64(b.N)*5000/b.Elapsed().Seconds(), "pages/s")
}
