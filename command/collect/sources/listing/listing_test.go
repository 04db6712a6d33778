package listing_test

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/frontier"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func serve(t testing.TB, files map[string]string) *walktest.Site {
	t.Helper()
	return walktest.Serve(t, listing.Type, files, func(f *fetch.Fetcher) collect.Collector {
		return listing.New(site.New(f, func() time.Time { return walktest.Now }))
	})
}

func TestListing(t *testing.T) {
	t.Parallel()
	other := serve(t, map[string]string{"/e/jazz": walktest.Event("Elsewhere")})
	s := serve(t, map[string]string{
		"/events": `<html><head><title>Programme</title><link rel="stylesheet" href="/style"><link rel=alternate ` +
			`type=application/rss+xml href=/feed><link rel=prev href=/archive></head>
			<header><a href="/">Home</a></header><nav><a href="/about">About</a><a href="/tags/jazz">Jazz</a></nav>
			<a href="/programme.pdf">x</a><a href="#top">x</a><a href="/events#top">x</a><a href="/events?utm_source=x">x</a>` +
			`<a href="mailto:a@example.org">x</a>
			<a href="` + other.URL + `/e/jazz">x</a><a href="//other.example/">x</a><a href="http://10.0.0.1/">x</a>` +
			`<a href="file:///etc/passwd">x</a>
			<a href="/logout">x</a><a href="/e/jazz?add-to-cart=3">x</a><a href="/secret" rel="nofollow">x</a>` +
			`<a href="/e/poster" download>x</a>
			<a href="/e/quiz">Quiz</a><a href="{}/e/jazz?PHPSESSID=7">Jazz</a><a href="/e/jazz">Jazz</a><a href="/away">x</a>` +
			`<a href="/gone">x</a>
			<footer><a href="/imprint">Imprint</a></footer>` + walktest.JSONLD("Jazz night", "/e/jazz"),
		"/e/jazz":    walktest.Event("Jazz night") + `<a href="/deeper">x</a>`,
		"/e/quiz":    walktest.Event("Quiz"),
		"/":          walktest.Plain(`<a href="/deeper">x</a>`),
		"/about":     walktest.Plain(""),
		"/imprint":   walktest.Plain(""),
		"/tags/jazz": walktest.Plain(`<a href="/tags/more">x</a>`),
		"/feed":      "<rss><channel><item><link>{}/e/jazz</link></item><item><link>{}/e/post</link></item></channel></rss>",
		"/e/post":    walktest.Event("Post"),
	})
	s.Handle("/away", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, other.URL+"/e/jazz", http.StatusFound)
	})
	source := s.Source("/events")
	m := frontier.New(s.Collector.Start(source), walktest.Now)
	found := s.WalkOn(t, source, m, walktest.Now)
	if want := []string{"/events", "/feed", "/e/jazz", "/e/quiz", "/away", "/gone", "/", "/about", "/tags/jazz",
		"/imprint", "/e/post"}; !slices.Equal(found.Asked, want) {
		t.Errorf("asked for %q, want %q", found.Asked, want)
	}
	if want := []string{"Jazz night", "Jazz night", "Quiz", "Post"}; !slices.Equal(found.Titles, want) {
		t.Errorf("got %q", found.Titles)
	}
	assert.Equal(t, len(other.Asked()), 0, "the other site was asked for")
	assert.True(t, len(found.Failed) == 1 && collect.Gone(found.Failed["/gone"]) && len(found.Notes) == 1 &&
		found.Noted(collect.NoteLeftOut, "/away was left out: it redirects"),
		"failed %v, notes %v", found.Failed, found.Notes)
	// The listing and the event's own page show one happening, and the latter has precedence.
	a, b := found.Observations[0], found.Observations[1]
	assert.True(t, a.Key == b.Key && a.Standing == happening.FromListing && b.Standing == happening.FromOwnPage,
		"the listing has %s, %d, the page %s, %d", a.Key, a.Standing, b.Key, b.Standing)
	block := found.Observations[0].Source
	assert.True(t, block.Type == listing.Type && block.URL == source.URL, "source %+v", block)

	// A page that never led to an event is skipped, and fetched at growing intervals.
	for _, step := range []struct {
		after time.Duration
		want  []string
	}{
		{time.Hour, []string{"/events", "/feed", "/e/jazz", "/e/quiz", "/e/post"}},
		{13 * time.Hour, []string{"/events", "/feed", "/e/jazz", "/e/quiz", "/e/post", "/away", "/gone", "/", "/about",
			"/tags/jazz", "/imprint"}},
		{26 * time.Hour, []string{"/events", "/feed", "/e/jazz", "/e/quiz", "/e/post", "/gone"}},
		{38 * time.Hour, []string{"/events", "/feed", "/e/jazz", "/e/quiz", "/e/post", "/away", "/gone", "/", "/about",
			"/tags/jazz", "/imprint"}},
	} {
		now := walktest.Now.Add(step.after)
		m.Begin(s.Collector.Start(source), now)
		got := s.WalkOn(t, source, m, now).Asked
		slices.Sort(got)
		slices.Sort(step.want)
		assert.Slices(t, got, step.want, "after %s asked for", step.after)
	}

	// An event that the listing no longer names is gone.
	s.Set("/events", "<html><title>Programme</title><a href=/e/quiz>Quiz</a>"+strings.Repeat("words ", 50))
	m.Begin(s.Collector.Start(source), walktest.Now)
	s.WalkOn(t, source, m, walktest.Now)
	gone := m.DropUnlisted()
	assert.True(t, slices.Contains(gone, s.URL+"/e/jazz") && !slices.Contains(gone, s.URL+"/e/quiz") &&
		!slices.Contains(gone, s.URL+"/e/post"), "gone %q", gone)
}

// A listing that writes another number or session into its addresses at each visit lists the same pages and events.
func TestChangingAddresses(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"/e/jazz": walktest.Event("Jazz"), "/e/quiz?id=4": walktest.Event("Quiz"),
		"/about": walktest.Plain("")})
	source := s.Source("/events")
	m := frontier.New(nil, walktest.Now)
	keys := map[string]bool{}
	for n, want := range [][]string{{"/events", "/e/jazz", "/e/quiz?id=4", "/about"},
		{"/events", "/e/jazz", "/e/quiz?id=4"}} {
		now := walktest.Now.Add(time.Duration(n) * time.Hour)
		jazz := fmt.Sprintf("/e/jazz?_=%d", now.UnixMilli())
		s.Set("/events", walktest.Plain(fmt.Sprintf(`<a href=%q>x</a>`+
			`<a href="/e/quiz?id=4&t=%d&amp;utm_campaign=%[3]d">x</a><nav><a href="/about?sid=%032[3]x">x</a></nav>`,
			jazz, now.Unix(), now.UnixNano())+walktest.JSONLD("Jazz", jazz)))
		m.Begin(s.Collector.Start(source), now)
		found := s.WalkOn(t, source, m, now)
		assert.Slices(t, found.Asked, want, "visit %d asked for", n)
		for _, o := range found.Observations {
			keys[o.Key] = true
		}
		assert.Equal(t, len(m.DropUnlisted()), 0, "visit %d misses", n)
	}
	assert.Equal(t, len(keys), 2, "jazz and quiz are known by %v", keys)
}

// Events whose pages all name one address as theirs are as many as the pages: the address is that of the listing, of
// the section, or of the page without its number.
func TestSharedCanonicalAddress(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct{ page, head, more string }{
		"canonical is the listing": {"/e/%d", `<link rel=canonical href="/events"><meta property="og:url" ` +
			`content="{}/events">`, ""},
		"canonical is above":               {"/all/e/%d", `<link rel=canonical href="/all">`, ""},
		"canonical leaves out the number":  {"/event?id=%d&lang=en", `<link rel=canonical href="/event">`, ""},
		"og:url is the same everywhere":    {"/e/%d", `<meta property="og:url" content="{}/e/">`, ""},
		"the address is the listing's":     {"/e/%d", "", `,"url":"{}/events"`},
		"the id is the listing's":          {"/e/%d", "", `,"@id":"{}/events#event"`},
		"the id is that of the front page": {"/e/%d", "", `,"@id":"{}/#event"`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			files, links := map[string]string{}, ""
			for i, e := range [][2]string{{"Quiz", "05"}, {"Quiz", "12"}, {"Jazz", "05"}} { // title or start in common
				page := fmt.Sprintf(tt.page, i)
				links += fmt.Sprintf(`<a href=%q>x</a>`, page)
				files[page] = walktest.Plain("<head><title>" + e[0] + "</title>" + tt.head + "</head><h1>" + e[0] +
					`</h1><script type="application/ld+json">{"@type":"Event","name":"` + e[0] +
					`","startDate":"2026-12-` + e[1] + `T20:00","location":"Kajhallen"` + tt.more + `}</script>`)
			}
			files["/events"] = walktest.Plain("<head><title>Programme</title>" + tt.head + "</head>" + links)
			keys := map[string]bool{}
			for _, o := range serve(t, files).Walk(t, "/events").Observations {
				for _, key := range o.Keys {
					keys[key] = true
				}
			}
			assert.Equal(t, len(keys), 3, "three events are known by %v", keys)
		})
	}
}

// paged serves a listing of several pages, with ten events each; around links the pages.
func paged(t testing.TB, pages int, of func(r *http.Request) int, around func(page int) string) *walktest.Site {
	t.Helper()
	s := serve(t, map[string]string{"/robots.txt": ""})
	s.Handle("*", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		page := of(r)
		if strings.HasPrefix(r.URL.Path, "/e/") || page > pages {
			_, _ = io.WriteString(w, walktest.Plain(r.URL.Path))
			return
		}
		_, _ = io.WriteString(w, walktest.Plain(around(page)))
		for i := range 10 {
			_, _ = fmt.Fprintf(w, `<a href="/e/%d-%d">x</a>`, page, i)
		}
	})
	return s
}

func query(name string) func(*http.Request) int {
	return func(r *http.Request) int { n, _ := strconv.Atoi(r.URL.Query().Get(name)); return n }
}

func lists(asked []string) (n int) {
	for _, path := range asked {
		if !strings.HasPrefix(path, "/e/") {
			n++
		}
	}
	return n
}

// Pages of a listing follow each other by rel=next and by numbers.
func TestPagination(t *testing.T) {
	t.Parallel()
	numbered := func(format string, from, to int) func(int) string {
		return func(int) string {
			var b strings.Builder
			for i := from; i <= to; i++ {
				fmt.Fprintf(&b, `<a href="`+format+`">%[1]d</a>`, i)
			}
			return b.String()
		}
	}
	path := func(r *http.Request) int {
		n, _ := strconv.Atoi(strings.Trim(r.URL.Path[strings.LastIndexAny(strings.TrimSuffix(r.URL.Path, "/"), "/-")+1:],
			"/abcdefghijklmnopqrstuvwxyz."))
		return n
	}
	for name, tt := range map[string]struct {
		start  string
		of     func(*http.Request) int
		around func(int) string
	}{
		"rel=next in the head": {"/list?after=0", query("after"), func(page int) string {
			return fmt.Sprintf(`<link rel="next" href="?after=%d">`, page+1)
		}},
		"rel=next in the text": {"/list", query("cursor"), func(page int) string {
			return fmt.Sprintf(`<a rel="nofollow next" href="/list?cursor=%d">Next</a><a rel=prev href="/list?cursor=%d">`,
				page+1, page-1)
		}},
		"numbers":             {"/list?tag=x", query("page"), numbered("/list?tag=x&page=%d", 0, 6)},
		"numbers in the path": {"/list/", path, numbered("/list/page/%d/", 1, 6)},
		"numbers in a file":   {"/list.html", path, numbered("/list/page-%d.html", 1, 6)},
		"numbers of neighbours": {"/list", query("page"), func(page int) string {
			return fmt.Sprintf(`<a href="/list?page=%d">Back</a><a href="/list?page=%d">On</a>`, page-1, page+1)
		}},
		"offsets": {"/list", func(r *http.Request) int {
			return query("start")(r) / 10
		}, func(page int) string { return fmt.Sprintf(`<a href="/list?start=%d">On</a>`, page*10+10) }},
		"both": {"/list", query("page"), func(page int) string {
			return fmt.Sprintf(`<link rel=next href="/list?page=%[1]d"><a rel=next href="/list?page=%[1]d">Next</a>`+
				`<a href="?page=%[1]d">%[1]d</a>`, page+1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := paged(t, 6, tt.of, tt.around)
			found := s.Walk(t, tt.start)
			events := map[string]bool{}
			for _, path := range found.Asked {
				events[strings.TrimPrefix(path, "/e/")] = true
			}
			for page := range 7 {
				first := strings.Contains(name, "path") || strings.Contains(name, "file")
				if !events[fmt.Sprintf("%d-9", page)] && (page > 1 || !first) {
					t.Errorf("page %d was not read", page)
				}
			}
			if n := lists(found.Asked); n > 9 || len(found.Failed) != 0 || len(found.Partial) != 0 {
				t.Errorf("%d pages of the listing, failed %v, partial %q, notes %v, asked %q", n, found.Failed, found.Partial,
					found.Notes, found.Asked)
			}
			assert.Equal(t, len(slices.Compact(slices.Sorted(slices.Values(found.Asked)))), len(found.Asked),
				"pages were asked for twice: %q", found.Asked)
		})
	}
}

// The walk through any listing ends, with a note.
func TestEndlessListings(t *testing.T) {
	t.Parallel()
	const endless = 1 << 30
	for name, tt := range map[string]struct {
		of     func(*http.Request) int
		pages  int
		around func(int) string
		most   int
		code   collect.NoteCode
		note   string
	}{
		"by rel=next": {
			query("cursor"), endless, func(page int) string { return fmt.Sprintf(`<a rel=next href="?cursor=%d">`, page+1) },
			100, collect.NoteTruncated, "more than 100 pages",
		},
		"by numbers": {
			query("page"), endless, func(page int) string { return fmt.Sprintf(`<a href="?page=%d">`, page+1) },
			102, collect.NoteTruncated, "more than 100 pages",
		},
		"by offsets": {
			query("offset"), endless, func(page int) string { return fmt.Sprintf(`<a href="?offset=%d">`, page+10) },
			210, collect.NoteTruncated, "more than 100 pages",
		},
		"behind its end it is always the same": {
			query("page"), 3, func(page int) string { return fmt.Sprintf(`<a href="?page=%d">`, page+1) }, 6, "", "",
		},
		"each page a listing of its own": {
			func(r *http.Request) int { return len(r.URL.Path) }, endless, func(page int) string {
				return fmt.Sprintf(`<a href="/list%[1]s?page=2">x</a><a rel=next href="/list%[1]s?page=2">x</a>`,
					strings.Repeat("x", page))
			}, 100, "", "",
		},
		"a month a page": {
			query("m"), endless, func(page int) string {
				return fmt.Sprintf(`<a rel=next href="?date=%s&m=%d">x</a>`, walktest.Now.AddDate(0, page+1, 0).
					Format("2006-01"), page+1)
			},
			30, collect.NoteLeftOut, "days long gone or far ahead",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := paged(t, tt.pages, tt.of, tt.around)
			found := s.Walk(t, "/list")
			n := lists(found.Asked)
			assert.True(t, n <= tt.most, "%d pages of the listing were asked for: %.2000q", n, found.Asked)
			if tt.code != "" && !found.Noted(tt.code, tt.note) {
				t.Errorf("notes %v", found.Notes)
			}
		})
	}
}

// Traps are a server that repeats its last page, months without events, sessions in addresses, redirects to ever new
// addresses, and a page that says "not found" with status 200.
func TestTraps(t *testing.T) {
	t.Parallel()
	t.Run("the last page again", func(t *testing.T) {
		t.Parallel()
		s := paged(t, 1<<30, func(r *http.Request) int { return min(query("page")(r), 3) }, func(int) string { return "" })
		s.Handle("/list", func(w http.ResponseWriter, r *http.Request) {
			page := query("page")(r)
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, walktest.Plain(`<a href="/e/%d">x</a><a href="?page=%d">x</a>`), min(page, 3), page+1)
		})
		found := s.Walk(t, "/list")
		assert.True(t, lists(found.Asked) <= 6 && found.Noted(collect.NoteLeftOut, "shows nothing new") &&
			len(found.Partial) == 0, "asked for %q, notes %v", found.Asked, found.Notes)
	})
	t.Run("a session in each address", func(t *testing.T) {
		t.Parallel()
		s, visits := serve(t, nil), 0
		s.Handle("/list", func(w http.ResponseWriter, _ *http.Request) {
			visits++
			session := fmt.Sprintf("%032x", visits)
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, walktest.Plain(`<a href="/e/1;jsessionid=%[1]s">x</a><a href="/e/2?sid=%[1]s">x</a>`+
				`<a href="/(S(%[1]s))/e/3">x</a><a href="?sessionid=%[1]s">x</a>`), session)
		})
		s.Handle("*", func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, walktest.Event("Event "+r.URL.Path))
		})
		source := s.Source("/list")
		m := frontier.New(s.Collector.Start(source), walktest.Now)
		for range 3 {
			assert.Slices(t, s.WalkOn(t, source, m, walktest.Now).Asked, []string{"/list", "/e/1", "/e/2",
				"/e/3"}, "asked for")
			m.Begin(s.Collector.Start(source), walktest.Now)
		}
		gone := m.DropUnlisted()
		assert.True(t, len(gone) <= 3, "gone %q", gone)
	})
	t.Run("redirects", func(t *testing.T) {
		t.Parallel()
		s := serve(t, map[string]string{"/list": `<html><a href="/loop">x</a><a href="/spiral/">x</a>` +
			walktest.JSONLD("Jazz", "/loop")})
		s.Handle("/loop", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/loop", http.StatusFound) })
		s.Handle("*", func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, r.URL.Path+"x", http.StatusFound) })
		found := s.Walk(t, "/list")
		assert.True(t, len(found.Failed) == 2 && errors.Is(found.Failed["/loop"], collect.ErrTooManyRedirects) &&
			errors.Is(found.Failed["/spiral/"], collect.ErrTooManyRedirects) && len(found.Asked) <= 13,
			"failed %v, asked for %q", found.Failed, found.Asked)
		// A listing that is always redirected is still one listing.
		moving := serve(t, nil)
		n := 0
		moving.Handle("*", func(w http.ResponseWriter, r *http.Request) {
			if n++; n%2 == 1 {
				http.Redirect(w, r, fmt.Sprintf("/list%d?page=2", n), http.StatusFound)
				return
			}
			w.Header().Set("Content-Type", "text/html")
			_, _ = fmt.Fprintf(w, walktest.Plain(`<a href="?page=3">x</a><a href="/list%d?page=4">x</a>`), n)
		})
		if found := moving.Walk(t, "/list"); len(found.Asked) > 300 {
			t.Errorf("asked for %d pages", len(found.Asked))
		}
	})
	t.Run("not found with status 200", func(t *testing.T) {
		t.Parallel()
		s := serve(t, map[string]string{"/list": `<html>` + strings.Repeat("words ", 50) +
			`<a href="/e/1">x</a><a href="/e/2">x</a><a rel=next href="/list/2">`})
		s.Handle("*", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/html")
			_, _ = io.WriteString(w, walktest.Plain(`Not found. <a href="/e/1">x</a><a rel=next href="/list/2">x</a>`))
		})
		found := s.Walk(t, "/list")
		assert.True(t, len(found.Titles)+len(found.Failed)+len(found.Partial) == 0 && len(found.Asked) == 4,
			"%q, failed %v, partial %q, asked for %q", found.Titles, found.Failed, found.Partial, found.Asked)
	})
	t.Run("many links", func(t *testing.T) {
		t.Parallel()
		var b strings.Builder
		for i := range 2000 {
			fmt.Fprintf(&b, `<a href="/e/%d">x</a>`, i)
		}
		s := serve(t, map[string]string{"/list": walktest.Plain(b.String())})
		source := s.Source("/list")
		page, err := s.Collector.Read(t.Context(), source, collect.Known{Link: s.Collector.Start(source)[0], Root: true})
		if err != nil || len(page.Links) != 500 || !page.Notes.Partial() || !(walktest.Walked{Notes: page.Notes}).Noted(
			collect.NoteTruncated, "links 2000 pages, of which 500 are read") {
			t.Errorf("%d links, %v, %v", len(page.Links), page.Notes, err)
		}
		s.Set("/list", walktest.Plain(strings.Repeat(`<a href="/e/1">x</a>`, 60_000)+`<a href="/e/2">x</a>`))
		page, err = s.Collector.Read(t.Context(), source, collect.Known{Link: s.Collector.Start(source)[0], Root: true})
		if err != nil || len(page.Links) != 1 || !(walktest.Walked{Notes: page.Notes}).Noted(collect.NoteTruncated,
			"has 60001 links, of which 20000 are looked at") {
			t.Errorf("%d links, %v, %v", len(page.Links), page.Notes, err)
		}
	})
}

// An unchanged page is not read, and its links are not examined again.
func TestUnchanged(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{"/e/1": walktest.Event("Jazz")})
	s.Handle("/list", func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("ETag", `"1"`)
		w.Header().Set("Content-Type", "text/html")
		if r.Header.Get("If-None-Match") == `"1"` {
			w.WriteHeader(http.StatusNotModified)
			return
		}
		_, _ = io.WriteString(w, walktest.Plain(`<a href="/e/1">x</a>`))
	})
	source := s.Source("/list")
	known := collect.Known{Link: s.Collector.Start(source)[0], Root: true}
	first, err := s.Collector.Read(t.Context(), source, known)
	must.True(t, err == nil && len(first.Links) == 1, "%+v, %v", first, err)
	known.State = first.State
	if second, err := s.Collector.Read(t.Context(), source, known); err != nil || !second.Unchanged ||
		len(second.Links) != 0 {
		t.Errorf("%+v, %v", second, err)
	}
	known.Role = "of another version"
	if second, err := s.Collector.Read(t.Context(), source, known); err != nil || second.Unchanged ||
		len(second.Links) != 1 {
		t.Errorf("a role that is not known gives %+v, %v", second, err)
	}
}

// A page that robots.txt forbids is not requested, which is not a failure. Neither is a page for members, nor an
// unreadable feed: their events stay unknown.
func TestSkippedPages(t *testing.T) {
	t.Parallel()
	s := serve(t, map[string]string{
		"/robots.txt": "User-agent: *\nDisallow: /private\n",
		"/list": `<html><link rel=alternate type=application/rss+xml href=/feed><a href="/private/1">x</a>` +
			`<a href="/members">x</a><a href="/e/1">x</a>` + strings.Repeat("words ", 50),
		"/feed": "<html>no feed",
		"/e/1":  walktest.Event("Jazz"),
	})
	s.Handle("/members", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
	found := s.Walk(t, "/list")
	if !slices.Equal(found.Asked, []string{"/list", "/feed", "/members", "/e/1"}) || !slices.Equal(found.Titles,
		[]string{"Jazz"}) || len(found.Failed)+len(found.Partial) != 0 {
		t.Errorf("asked for %q, got %q, failed %v, partial %q", found.Asked, found.Titles, found.Failed, found.Partial)
	}
	assert.True(t, found.Noted(collect.NoteLeftOut, "robots.txt disallows "+s.URL+"/private/1") &&
		found.Noted(collect.NoteLeftOut, "/members is not for us") &&
		found.Noted(collect.NoteLeftOut, "a feed can't be read"), "notes %v", found.Notes)
}
