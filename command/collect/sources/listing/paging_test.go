package listing

import (
	"net/url"
	"strings"
	"testing"
	"time"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/crawl/links"
	"carillon/command/collect/extract/timing"
	"carillon/command/collect/identity"
	"carillon/command/collect/sources/site"
)

func address(t testing.TB, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}

func TestPageNumber(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]struct {
		list   string
		number int
	}{
		"https://a.example/events":                  {"a.example/events", 0},
		"https://a.example/events/?page=3&tag=x":    {"a.example/events?tag=x", 3},
		"https://a.example/events?page=0":           {"a.example/events", 0},
		"https://a.example/events?page=1":           {"a.example/events", 1}, // the second one if they count from 0
		"https://a.example/events?page=two":         {"a.example/events?page=two", 0},
		"https://a.example/events?tribe_page=4":     {"a.example/events", 4},
		"https://a.example/events?offset=40":        {"a.example/events", 4},
		"https://a.example/events?offset=99999":     {"a.example/events", 101},
		"https://a.example/events/page/2/":          {"a.example/events", 2},
		"https://a.example/events/page/1":           {"a.example/events", 0},
		"https://a.example/page/2":                  {"a.example", 2},
		"https://a.example/events/seite-7.html?x=1": {"a.example/events.html?x=1", 7},
		"https://a.example/events/page/2?page=3":    {"a.example/events?page=3", 2},
		"https://a.example/?p=123":                  {"a.example?p=123", 0},
		"https://a.example/?page_id=123":            {"a.example?page_id=123", 0},
		"https://a.example/homepage/2":              {"a.example/homepage/2", 0},
	} {
		if list, number := pageNumber(address(t, text)); list != want.list || number != want.number {
			t.Errorf("%s is page %d of %s", text, number, list)
		}
	}
}

func TestDays(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"/calendar/2026-12":            "2026-12-01 2027-01-01",
		"/events/2026/12/05/":          "2026-12-05 2026-12-06",
		"/?date=2026-12-05":            "2026-12-05 2026-12-06",
		"/?tribe-bar-date=202612":      "2026-12-01 2027-01-01",
		"/?month=2&year=2031":          "2031-02-01 2031-03-01",
		"/2026/12/05/jazz-in-the-hall": "",
		"/jazz-in-the-hall/2026-12-05": "",
		"/?month=13&year=2031":         "",
		"/?id=123456":                  "",
		"/events":                      "",
	} {
		got := ""
		if from, to, ok := days(address(t, text)); ok {
			got = from.Format(time.DateOnly) + " " + to.Format(time.DateOnly)
		}
		if got != want {
			t.Errorf("%s is of %q, want %q", text, got, want)
		}
	}
}

func TestPositions(t *testing.T) {
	t.Parallel()
	p := position{
		way:    byNext,
		page:   12,
		stale:  1,
		digest: "1f",
	}
	if got := positionOf(p.role()); got != p {
		t.Errorf("got %+v", got)
	}
	for _, role := range []string{"", "page", "next:1", "next:x:0:1", "next:1:x:1", "next:1:2:3:4"} {
		if got := positionOf(role); got.page != maxPages || got.stale != maxStale || got.way != byNumber {
			t.Errorf("%q is %+v", role, got)
		}
	}
}

// FuzzPaging shows that any page leads to few pages of its site, each once.
func FuzzPaging(f *testing.F) {
	for _, seed := range []string{
		`<link rel=next href=?page=2><a href=/e/1>x</a><nav><a href=/about>x</a></nav>`,
		`<base href="//b.example/"><a rel="next prev" href="page/2/">`,
		`<a href="?page=2">2</a><a href="/list/page/101">x</a><a href="?offset=20&page=3">`,
		`<a href="/calendar/2031-12">x</a><a href="?month=1&year=1999">x`,
		`<a href="https://user@a.example/">x</a><a href="javascript:x">x</a><a href="/x;jsessionid=0123456789abcdef">x`,
		`<area href=/cart><a href=/e.pdf download>`,
	} {
		f.Add(seed, "/list", "next:1:0:")
		f.Add(seed, "/list?page=7", "number:7:1:0")
	}
	f.Fuzz(func(t *testing.T, text, path, role string) {
		at, err := url.Parse("https://a.example/" + strings.TrimLeft(path, "/"))
		if err != nil {
			return
		}
		root, err := html.Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		look := &look{
			budget: budget.New(t.Context()),
			html: &site.HTML{
				URL:   at,
				Base:  at,
				Root:  root,
				Shown: []*url.URL{at},
			},
			at:     positionOf(role),
			window: timing.WindowAt(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
			pages:  links.New(at, nil, maxLinks),
		}
		look.known(collect.Known{Link: collect.Link{Address: at.String()}, Root: true})
		look.around()
		var read collect.Page
		look.follow(&read)
		seen := map[string]bool{}
		for _, link := range read.Links {
			u, err := url.Parse(link.Address)
			if err != nil || !identity.SameSite(u, at) || u.User != nil || len(link.Address) > collect.MaxAddress ||
				seen[link.Address] {
				t.Errorf("link %+v, %v", link, err)
			}
			if page := positionOf(link.Role).page; link.List && (page < 1 || page > maxPages) {
				t.Errorf("page %d: %+v", page, link)
			}
			seen[link.Address] = true
		}
		if len(read.Links) > maxLinks+maxPages {
			t.Errorf("%d links", len(read.Links))
		}
	})
}
