package listing

import (
	"net/url"
	"strconv"
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
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func address(t testing.TB, text string) *url.URL {
	t.Helper()
	u := must.Get(url.Parse(text))(t)
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
		list, number := pageNumber(address(t, text))
		assert.True(t, list == want.list && number == want.number, "%s is page %d of %s", text, number, list)
	}
}

// The next page is known by its words, its class or its number, whatever its parameter is called.
func TestNextByWords(t *testing.T) {
	t.Parallel()
	for link, want := range map[string]string{
		`<li class="next"><a href="?tx_list%5BcurrentPage%5D=2">Nächste</a></li>`:            "next 2 tx_list",
		`<a class="next" href="?b_start:int=10">Next 10 items »</a>`:                         "next 2 b_start",
		`<a class="next page-numbers" href="?pno=2">&gt;</a>`:                                "next 2 pno",
		`<a href="?PAGEN_1=2">Следующая</a><a href="?PAGEN_1=9">9</a>`:                       "next 2 PAGEN_1",
		`<a class="older-posts" href="?offset=1600000000000">Older</a>`:                      "next 2 offset",
		`<a href="?pageIndex=2">2</a> <a href="?pageIndex=3">3</a>`:                          "next 2 pageIndex=2",
		`<a href="?page%5Bnumber%5D=2">次へ</a>`:                                               "next 2 page",
		`<a href="/list/p2">Suivant ›</a>`:                                                   "next 2 /list/p2",
		`<a href="?p=2">Next</a>`:                                                            "next 2 p=2",
		`<a href="?x_cur=2" aria-label="下一页"><svg></svg></a>`:                                "next 2 x_cur",
		`<button data-url="/list?sf_paged=2">Load more</button>`:                             "next 2 sf_paged",
		`<a href="?p=2">Read on</a>`:                                                         "page",
		`<a href="/e/2">Next</a>`:                                                            "page",
		`<a href="?id=jazz">Next</a>`:                                                        "page",
		`<table><td><a href="?day=1">1</a><td><a href="?day=2">2</a></table>`:                "page",
		`<a href="?p=2&amp;order=2">2</a>`:                                                   "page",
		`<ul class="pagination"><a href="javascript:go(2)">Next</a></ul>`:                    "left out",
		`<ul class="pagination"><li><button>Weiter</button></ul>`:                            "left out",
		`<div class="carousel"><a class="next" href="#">Next</a></div>`:                      "",
		`<link rel="next" href="/list?page=2"><div class="pager"><a href="#">Next</a></div>`: "number 2 page=2",
	} {
		at := address(t, "https://a.example/list")
		root := must.Get(html.Parse(strings.NewReader(link)))(t)
		l := &look{
			budget: budget.New(t.Context()),
			html:   &site.HTML{URL: at, Base: at, Root: root},
			at:     position{way: byNext, page: 1},
			window: timing.WindowAt(time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)),
			pages:  links.New(at, nil, maxLinks),
		}
		l.known(collect.Known{Link: collect.Link{Address: at.String()}, Root: true})
		l.around()
		var read collect.Page
		l.follow(&read)
		got := ""
		for _, n := range read.Notes {
			got += string(n.Code)
		}
		for i, page := range read.Links {
			switch p := positionOf(page.Role); {
			case !page.List:
				got = "page"
			case i == 0:
				got = string(p.way) + " " + strconv.Itoa(p.page) + " " + page.Address
			default:
				t.Errorf("%s has further pages: %+v", link, page)
			}
		}
		if parts := strings.Split(strings.ReplaceAll(want, "left out", "left-out"), " "); !strings.HasPrefix(got, parts[0]) ||
			!strings.Contains(got, parts[len(parts)-1]) || want == "" && got != "" {
			t.Errorf("%s leads to %q, want %q", link, got, want)
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
		assert.Equal(t, got, want, "%s is of", text)
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
	assert.Equal(t, positionOf(p.role()), p, "positionOf")
	for _, role := range []string{"", "page", "next:1", "next:x:0:1", "next:1:x:1", "next:1:2:3:4"} {
		got := positionOf(role)
		assert.True(t, got.page == maxPages && got.stale == maxStale && got.way == byNumber, "%q is %+v", role, got)
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
			assert.True(t, err == nil && identity.SameSite(u, at) && u.User == nil && len(link.Address) <= collect.MaxAddress &&
				!seen[link.Address], "link %+v, %v", link, err)
			if page := positionOf(link.Role).page; link.List && (page < 1 || page > maxPages) {
				t.Errorf("page %d: %+v", page, link)
			}
			seen[link.Address] = true
		}
		assert.True(t, len(read.Links) <= maxLinks+maxPages, "%d links", len(read.Links))
	})
}
