package sitemap_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// serve starts a server of files, and a collector of the pages in them.
func serve(t testing.TB, files map[string]string) *walktest.Site {
	t.Helper()
	return walktest.Serve(t, sitemap.Type, files, func(f *fetch.Fetcher) collect.Collector {
		return sitemap.New(f, site.New(f, func() time.Time { return walktest.Now }))
	})
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
	return strings.NewReplacer("urlset", "sitemapindex", "<url>", "<sitemap>", "</url>", "</sitemap>").
		Replace(urlset(addresses...))
}

// The address is that of a sitemap, of an index or of a site.
func TestAddresses(t *testing.T) {
	t.Parallel()
	pages := map[string]string{"/jazz": walktest.Event("Jazz"), "/quiz?week=1": walktest.Event("Quiz"),
		"/": walktest.Event("Front")}
	for name, tt := range map[string]struct {
		path  string
		files map[string]string
		want  []string
	}{
		"pages in two languages": {"/map.xml", map[string]string{
			"/map.xml": strings.ReplaceAll(urlset("{}/en/jam", "{}/de/jazz"), "</loc>", `</loc>
				<xhtml:link rel="alternate" hreflang="en" href="{}/en/jam"/>
				<xhtml:link rel="alternate" hreflang="x-default" href="{}/de/jazz"/>`),
			"/de/jazz": walktest.Event("Jazz"), "/en/jam": walktest.Event("Jam")}, []string{"Jazz"}},
		"a sitemap": {"/map.xml", map[string]string{"/map.xml": urlset("{}/jazz", "{}/quiz?week=1")},
			[]string{"Jazz", "Quiz"}},
		"its own front page": {"/map.xml", map[string]string{"/map.xml": urlset("{}", "{}/jazz")},
			[]string{"Front", "Jazz"}},
		"a text": {"/map.txt", map[string]string{"/map.txt": "{}/jazz\n{}/quiz?week=1\n"},
			[]string{"Jazz", "Quiz"}},
		"a zip": {"/map.xml.gz", nil, []string{"Jazz"}},
		"a feed": {"/feed",
			map[string]string{"/feed": "<rss><channel><item><link>{}/jazz</link></item></channel></rss>"}, []string{"Jazz"}},
		"an index": {"/index", map[string]string{"/index": index("{}/a.xml", "/b.xml"),
			"/a.xml": urlset("{}/jazz"), "/b.xml": urlset("{}/quiz?week=1")}, []string{"Jazz", "Quiz"}},
		"a site with robots": {"", map[string]string{"/robots.txt": "Sitemap: {}/a.xml\nsitemap: /b.xml\n",
			"/a.xml": urlset("{}/jazz"), "/b.xml": urlset("{}/")}, []string{"Jazz", "Front"}},
		"a site without": {"/", map[string]string{"/sitemap.xml": urlset("{}/jazz", "{}/")},
			[]string{"Jazz", "Front"}},
		"a page of a site": {"/jazz", map[string]string{"/sitemap.xml": index("{}/b.xml"),
			"/b.xml": urlset("{}/quiz?week=1")}, []string{"Quiz"}},
		"one page by two names": {"/map.xml", map[string]string{"/map.xml": urlset("{}/jazz", "{}/jazz#tickets",
			"{}/jazz/?utm_source=x", "{}/jazz?PHPSESSID=1")}, []string{"Jazz"}},
		"a loop": {"/a", map[string]string{"/a": index("{}/b", "{}/a"), "/b": index("{}/a", "{}/c"),
			"/c": urlset("{}/jazz")}, []string{"Jazz"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files := map[string]string{"/map.xml.gz": walktest.Zipped(t, urlset("/jazz"))}
			for path, file := range pages {
				files[path] = file
			}
			for path, file := range tt.files {
				files[path] = file
			}
			found := serve(t, files).Walk(t, tt.path)
			assert.True(t, slices.Equal(found.Titles, tt.want) && len(found.Notes) == 0 && len(found.Failed) == 0,
				"got %q, notes %v, failed %v", found.Titles, found.Notes, found.Failed)
			for _, o := range found.Observations {
				assert.True(t, o.Standing == happening.FromOwnPage && o.Source.Type == sitemap.Type &&
					strings.HasSuffix(o.Source.URL, tt.path), "%s: standing %d, source %+v", o.Details.Title, o.Standing, o.Source)
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
		"no sitemap":          {map[string]string{}, collect.ErrHTTPStatus},
		"a page in its place": {map[string]string{"/sitemap.xml": "<html>Not found"}, collect.ErrUnsupportedContent},
		"robots.txt keeps us off": {map[string]string{"/robots.txt": "User-agent: *\nDisallow: /",
			"/sitemap.xml": urlset("{}/jazz")}, collect.ErrRobotsDisallowed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			found := serve(t, tt.files).Walk(t, "/")
			assert.True(t, len(found.Failed) == 1 && errors.Is(found.Failed["/robots.txt"], tt.want), "failed %v", found.Failed)
		})
	}
	s := serve(t, map[string]string{"/page": walktest.Event("Jazz")})
	if found := s.Walk(t, "/page"); !errors.Is(found.Failed["/page"], collect.ErrUnsupportedContent) {
		t.Errorf("a page that is no sitemap, of a site without: %v", found.Failed)
	}
}

// Addresses of other sites in a sitemap are not requested, nor redirects of a page to them.
func TestOtherSites(t *testing.T) {
	t.Parallel()
	other := serve(t, map[string]string{"/jazz": walktest.Event("Elsewhere"), "/robots.txt": "User-agent: *\nDisallow: /"})
	s := serve(t, map[string]string{
		"/jazz":       walktest.Event("Jazz"),
		"/robots.txt": "Sitemap: {}/map.xml\nSitemap: " + other.URL + "/map.xml\nSitemap: ftp://x/map.xml",
		"/map.xml": urlset(other.URL+"/jazz", "http://10.0.0.1/", "http://169.254.169.254/latest/meta-data",
			"http://[::1]:1/x", "file:///etc/passwd", "javascript:alert(1)",
			"http://user:password@example.org/", "//other.example/x", "/poster.jpg", "{}/programme.pdf", "{}/away", "{}/inside",
			"{}/disk", "{}/jazz", "{}/"+strings.Repeat("x", 3000)),
		"/index.xml": index(other.URL+"/map.xml", "file:///etc/passwd"),
	})
	s.Handle("/inside", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "http://169.254.169.254/latest/meta-data", http.StatusFound)
	})
	s.Handle("/disk", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "file:///etc/passwd", http.StatusFound)
	})
	s.Handle("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/jazz", http.StatusFound)
	})
	found := s.Walk(t, "/")
	if !slices.Equal(found.Titles, []string{"Jazz"}) || !slices.Equal(found.Asked, []string{"/map.xml", "/away", "/inside",
		"/disk", "/jazz"}) {
		t.Errorf("got %q, asked %q", found.Titles, found.Asked)
	}
	for _, path := range []string{"/away", "/inside", "/disk"} {
		assert.True(t, found.Noted(collect.NoteLeftOut, path+" was left out: it redirects to another site"),
			"nothing is said of %s: %v", path, found.Notes)
	}
	assert.True(t, found.Noted(collect.NoteLeftOut, "5 addresses of other sites") &&
		found.Noted(collect.NoteLeftOut, "4 addresses were left out that are none of the web") &&
		found.Noted(collect.NoteLeftOut, "1 addresses of other sites"), "notes %v", found.Notes)
	assert.Equal(t, len(found.Failed), 0, "failed %v", found.Failed)
	if found := s.Walk(t, "/index.xml"); len(found.Asked) != 1 || !found.Noted(collect.NoteLeftOut,
		"1 addresses of other sites") {
		t.Errorf("asked %q, notes %v", found.Asked, found.Notes)
	}
	assert.Equal(t, len(other.Asked()), 0, "the other site was asked for anything")
}

// If robots.txt has only other sites' sitemaps, a note reports them and the usual one of the site is read.
func TestSitemapsOfOtherSites(t *testing.T) {
	t.Parallel()
	other := serve(t, map[string]string{"/map.xml": urlset("{}/jazz"), "/jazz": walktest.Event("Elsewhere")})
	robots := "Sitemap: " + other.URL + "/map.xml\nSitemap: file:///etc/passwd\nSitemap: http://169.254.169.254/map.xml"
	s := serve(t, map[string]string{"/robots.txt": robots, "/sitemap.xml": urlset("{}/jazz"),
		"/jazz": walktest.Event("Jazz")})
	found := s.Walk(t, "/")
	assert.True(t, slices.Equal(found.Titles, []string{"Jazz"}) && len(found.Failed) == 0,
		"got %q, failed %v", found.Titles, found.Failed)
	if !found.Noted(collect.NoteLeftOut, "robots.txt names 3 sitemaps, none of them on this site: /sitemap.xml was "+
		"read in their place") {
		t.Errorf("notes %v", found.Notes)
	}
	s = serve(t, map[string]string{"/robots.txt": robots})
	failed := s.Walk(t, "/").Failed["/robots.txt"]
	assert.True(t, errors.Is(failed, collect.ErrHTTPStatus) &&
		strings.Contains(fmt.Sprint(failed), "robots.txt names 3 sitemaps, none of them on this site"), "failed: %v", failed)
	if len(other.Asked()) != 0 {
		t.Errorf("the other site was asked for %q", other.Asked())
	}
}

// An unchanged file, by validators or by its digest, is not read again, and still links its pages.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	for name, validators := range map[string]bool{"validators": true, "digest": false} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := serve(t, map[string]string{"/jazz": walktest.Event("Jazz"), "/quiz": walktest.Event("Quiz"),
				"/about": "<html>" + strings.Repeat("words ", 99)})
			body, unchanged := urlset(s.URL+"/jazz", s.URL+"/quiz 2026-11-01", s.URL+"/about"), 0
			s.Handle("/map.xml", func(w http.ResponseWriter, r *http.Request) {
				if validators {
					w.Header().Set("ETag", `"1"`)
					if r.Header.Get("If-None-Match") == `"1"` {
						unchanged++
						w.WriteHeader(http.StatusNotModified)
						return
					}
				}
				_, _ = io.WriteString(w, body)
			})
			source := s.Source("/map.xml")
			m := frontier.New(s.Collector.Start(source), walktest.Now)
			if first := s.WalkOn(t, source, m, walktest.Now); !slices.Equal(first.Asked, []string{"/map.xml", "/jazz", "/quiz",
				"/about"}) {
				t.Fatalf("first asked %q", first.Asked)
			}
			later := walktest.Now.Add(time.Hour)
			m.Begin(s.Collector.Start(source), later)
			assert.Slices(t, s.WalkOn(t, source, m, later).Asked, []string{"/map.xml", "/jazz"}, "second asked")
			assert.True(t, !validators || unchanged == 1, "%d files were not sent again", unchanged)
			// lastmod decides which pages are read; a page that is no longer listed is gone.
			body, validators = urlset(s.URL+"/quiz 2026-11-22"), false
			m.Begin(s.Collector.Start(source), later)
			assert.Slices(t, s.WalkOn(t, source, m, later).Asked, []string{"/map.xml", "/quiz"}, "third asked")
			assert.Slices(t, m.DropUnlisted(), []string{s.URL + "/about", s.URL + "/jazz"}, "gone")
		})
	}
}

func TestCaps(t *testing.T) {
	t.Parallel()
	if testing.Short() {
		t.Skip("large input, read by one goroutine: not run with the race detector")
	}
	numbered := func(n int, format string) []string {
		all := make([]string, n)
		for i := range all {
			all[i] = fmt.Sprintf(format, i)
		}
		return all
	}
	read := func(s *walktest.Site, path string) collect.Page {
		t.Helper()
		source := s.Source(path)
		page, err := s.Collector.Read(t.Context(), source, collect.Known{Link: s.Collector.Start(source)[0], Root: true})
		must.OK(t, err)
		return page
	}
	noted := func(page collect.Page, part string) bool {
		return page.Notes.Partial() && walktest.Walked{Notes: page.Notes}.Noted(collect.NoteTruncated, part)
	}
	s := serve(t, map[string]string{
		"/many":  urlset(numbered(50_001, "{}/%d")...),
		"/files": index(numbered(1500, "{}/%d.xml")...),
		"/large": urlset("{}/1") + strings.Repeat("<!--"+strings.Repeat("x", 100_000)+"-->", 525),
		"/cut":   urlset("{}/1", "{}/2")[:150],
		"/long":  urlset(numbered(9500, "{}/"+strings.Repeat("x", 1900)+"%d")...),
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
	if page := read(s, "/long"); len(page.Links) < 8000 || !noted(page, "too long") {
		t.Errorf("long: %d links, %v", len(page.Links), page.Notes)
	}
}

// Nested indexes lead to no more files than a source may have.
func TestEndlessIndexes(t *testing.T) {
	t.Parallel()
	for _, width := range []int{1, 2, 30} {
		s := serve(t, nil)
		files := 0
		s.Handle("*", func(w http.ResponseWriter, r *http.Request) {
			files++
			var further []string
			for i := range width {
				further = append(further, fmt.Sprintf("%s%s%d/", s.URL, r.URL.Path, i))
			}
			_, _ = io.WriteString(w, index(further...))
		})
		if width == 1 {
			s.Handle("*", func(w http.ResponseWriter, _ *http.Request) {
				files++
				_, _ = io.WriteString(w, index(fmt.Sprintf("%s/%dx/", s.URL, files)))
			})
		}
		found := s.Walk(t, "/map/")
		assert.True(t, files <= 1000 && files >= 31 && found.Noted(collect.NoteTruncated, "1000 in all"),
			"%d in each index: %d files, %v", width, files, found.Notes)
	}
}

// A walk skips a file without an end, and one that stalls in the middle.
func TestSlowFile(t *testing.T) {
	t.Parallel()
	s := serve(t, nil)
	s.Handle("/hangs", func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strings.TrimSuffix(urlset(s.URL+"/1"), "</urlset>"))
		if http.NewResponseController(w).Flush() == nil {
			<-r.Context().Done()
		}
	})
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	source := s.Source("/hangs")
	_, err := s.Collector.Read(ctx, source, collect.Known{Link: s.Collector.Start(source)[0], Root: true})
	assert.True(t, errors.Is(err, context.DeadlineExceeded), "got %v", err)
}

// BenchmarkWalkSitemap walks a sitemap of 5,000 pages at a server without a pace.
func BenchmarkWalkSitemap(b *testing.B) {
	files, addresses := map[string]string{}, make([]string, 5000)
	for i := range addresses {
		addresses[i] = fmt.Sprintf("{}/events/%d", i)
		files[fmt.Sprintf("/events/%d", i)] = walktest.Event(fmt.Sprintf("Event number %d", i))
	}
	files["/map.xml"] = urlset(addresses...)
	s := serve(b, files)
	for b.Loop() {
		if found := s.Walk(b, "/map.xml"); len(found.Titles) != 5000 || len(found.Failed) != 0 {
			b.Fatalf("%d events, %d failed", len(found.Titles), len(found.Failed))
		}
	}
	b.ReportMetric(float64(b.N)*5000/b.Elapsed().Seconds(), "pages/s")
}
