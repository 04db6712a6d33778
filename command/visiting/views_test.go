package visiting_test

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
	"carillon/command/collect/sources/sitemap"
	"carillon/command/visiting"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A listing and the page of an event show different halves of it, by different evidence: it is observed once, whole,
// and not revised at each visit.
func TestPagesOfSourceMakeOneView(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	const address = "https://example.org/jazz"
	listing := view("url:example.org/jazz", "Jazz", happening.FromListing, func(d *happening.Details) {
		d.PrimaryImage = "https://example.org/jazz.png"
	})
	own := view("id:example.org:17", "Jazz night", happening.FromOwnPage, func(d *happening.Details) {
		d.Description, d.Location = "<p>A quartet</p>", &happening.Location{Venue: &happening.Venue{Name: "Hall"}}
	})
	own.Keys, own.Version = append(own.Keys, "url:example.org/jazz"), 2
	l.set("root", leaflet{view: []collect.Observation{listing}})
	l.set(address, leaflet{view: []collect.Observation{own}})
	s := l.begin(t)
	s.expect("at first", "observed")
	s.expect("the same again", "")
	event := must.Get(happening.Events.Decode(&s.events(happening.Aggregate.Category)[0]))(t)
	e, is := event.(happening.Observed)
	assert.True(t, is && e.Details.Title == "Jazz night" && e.Details.PrimaryImage != "" && e.Details.Location != nil &&
		e.Details.Description != "" && e.Version == 2, "observed: %+v", event)

	own.Details.Description = "<p>A quintet</p>"
	l.set(address, leaflet{view: []collect.Observation{own}})
	s.expect("one half changes", "revised")
	l.set(address, leaflet{err: collect.ErrTimeout})
	s.expect("it fails, and is remembered", "")
	l.remove(address, true)
	s.expect("the listing still shows it, and knows less", "revised")
	l.set("root", leaflet{})
	s.expect("no page shows it", "went-stale")
	all := s.events(happening.Aggregate.Category)
	stale, is := must.Get(happening.Events.Decode(&all[len(all)-1]))(t).(happening.WentStale)
	assert.True(t, is && !stale.At.Before(e.At), "it went stale: %+v", stale)
}

// An event whose page has moved stays what it was, also with a longer title. A page of which only a part was read may
// still show what looks the same.
func TestMovedPage(t *testing.T) {
	t.Parallel()
	show := func(key, title string, partial bool) leaflet {
		return leaflet{partial: partial, view: []collect.Observation{view(key, title, 0, func(d *happening.Details) {
			d.Location = &happening.Location{Venue: &happening.Venue{Name: "Owl Barn"}}
		})}}
	}
	l := &leaflets{}
	l.set("a", show("url:example.org/a", "Krk Quartet", false))
	s := l.begin(t)
	s.expect("at first", "observed")
	l.remove("a", false)
	l.set("b", show("url:example.org/b", "Krk Quartet and friends", false))
	s.expect("it has moved", "revised")
	l.remove("b", true)
	l.set("d", show("url:example.org/d", "Krk Quartet", false))
	s.expect("it has moved, and the list names both", "revised")
	l.set("b", show("url:example.org/d", "Krk Quartet", false))
	s.expect("the former page shows it, too", "")
	l.remove("d", false)
	s.expect("the former page alone shows it", "")
	l.set("b", show("url:example.org/c", "Krk Quartet and friends", true))
	s.expect("a part of the page", "observed")
}

// Happenings go stale by pages that were read, or are gone.
func TestStaleFollowsFromPages(t *testing.T) {
	t.Parallel()
	l := &leaflets{}
	l.set("a", concert("jazz"))
	l.set("b", concert("quiz"))
	s := l.begin(t)
	s.expect("at first", "observed observed")
	for what, page := range map[string]leaflet{
		"a page fails":            {err: collect.ErrTimeout},
		"one is too complex":      {err: collect.ErrTooComplex},
		"one is cut":              {partial: true},
		"one is truncated":        {notes: collect.Notes{{Code: collect.NoteTruncated, Text: "cut"}}},
		"one needs JavaScript":    {notes: collect.Notes{{Code: collect.NoteNeedsJavaScript, Text: "scripts only"}}},
		"one shows what it shows": concert("jazz"),
	} {
		l.set("a", page)
		s.expect(what, "")
	}
	l.set("a", concert("jazz"))
	l.set("root", leaflet{partial: true})
	l.remove("b", false)
	s.expect("a list is cut", "")
	l.set("root", leaflet{err: collect.ErrTimeout})
	s.expect("a list fails", "")
	l.set("root", leaflet{})
	s.expect("b is off the list", "went-stale")
	l.remove("a", true)
	s.expect("a is listed, and gone", "went-stale")
	l.set("a", concert("jazz"))
	s.expect("a is back", "observed")
	l.set("a", concert("blues"))
	s.expect("a shows another one", "observed went-stale")
}

// The memory of walks may be lost at any time. Then everything is requested again, and nothing is recorded again.
func TestMemoryOfWalksMayBeLost(t *testing.T) {
	t.Parallel()
	own := func(title string) leaflet {
		return leaflet{view: []collect.Observation{view("url:example.org/quiz", title, happening.FromOwnPage, nil)}}
	}
	for name, tt := range map[string]struct {
		meanwhile func(*leaflets)
		want      string
	}{
		"as it was":         {func(*leaflets) {}, ""},
		"a page is gone":    {func(l *leaflets) { l.remove("b", true) }, "went-stale"},
		"a page fails":      {func(l *leaflets) { l.set("b", leaflet{err: collect.ErrTimeout}) }, ""},
		"a page has a new":  {func(l *leaflets) { l.set("c", concert("new")) }, "observed"},
		"half of it is new": {func(l *leaflets) { l.set("b", own("Pub quiz")) }, "revised"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			l.set("a", concert("jazz"))
			l.set("b", own("quiz"))
			if name != "a page is gone" {
				listed := view("url:example.org/quiz", "Quiz!", happening.FromListing, func(d *happening.Details) {
					d.PrimaryImage = "https://example.org/quiz.png"
				})
				l.set("root", leaflet{view: []collect.Observation{listed}})
			}
			s := l.begin(t)
			s.walk()
			s.expect("the same again", "")
			s.walks.Forget()
			tt.meanwhile(l)
			s.expect(name, tt.want)
			s.expect("the same again", "")
		})
	}
}

// A page is recorded before its observations are compared. A visit that is cut off between the two leaves the rest to
// the next one, which does not read the page again.
func TestVisit_cutOffBeforeComparison(t *testing.T) {
	t.Parallel()
	const many = visiting.MaxWaiting + 44
	for _, after := range []int64{0, 1, many - 10} {
		l := &leaflets{}
		l.set("a", concert("gone"))
		s := l.begin(t)
		s.expect("at first", "observed")
		var programme leaflet
		for i := range many {
			programme.view = append(programme.view, concert(string(rune('A'+i))).view...)
		}
		l.set("a", programme)
		ctx, cut := context.WithCancel(t.Context())
		s.monitor.Store = &cutting{Store: s.store, after: after, cut: cut}
		s.request(ctx)
		got := len(s.events(happening.Aggregate.Category))
		assert.True(t, got <= many, "all are recorded: %d", got)
		s.monitor.Store = s.store
		s.monitor.Visit(t.Context(), s.turn())
		assert.Equal(t, len(s.events(happening.Aggregate.Category)), many+2, "cut off after %d … events are recorded", after)
		assert.Equal(t, len(l.asked), 4, "the pages were asked for in the order %v, want each once a walk", l.asked)
	}
}

// Each event of a sitemap or a listing is observed once, also if the listing shows it too. Unlisted ones are stale, but
// not because a list can't be read.
func TestWalkedSites(t *testing.T) {
	t.Parallel()
	start := time.Now().Add(72 * time.Hour).UTC().Format("2006-01-02T15:04:05Z")
	shown := func(title, path, more string) string {
		return fmt.Sprintf(`<script type="application/ld+json">{"@type":"Event","name":%q,"url":%q,"startDate":%q,`+
			`"location":"Hall"%s}</script>`, title, path, start, more)
	}
	event := func(title, path, description string) string {
		return "<html><title>" + title + "</title><h1>" + title + "</h1>" +
			shown(title, path, fmt.Sprintf(`,"description":%q`, description))
	}
	for sourceType, tt := range map[string]struct {
		path string
		list func(paths ...string) string
	}{
		sitemap.Type: {"/sitemap.xml", func(paths ...string) string {
			return "<urlset><url><loc>{}" + strings.Join(paths, "</loc></url><url><loc>{}") + "</loc></url></urlset>"
		}},
		listing.Type: {"/programme", func(paths ...string) string {
			return "<html><title>Programme</title>" + shown("Jazz", "/e/jazz", "") + `<a href="` +
				strings.Join(paths, `">x</a><a href="`) + `">x</a>`
		}},
	} {
		t.Run(sourceType, func(t *testing.T) {
			t.Parallel()
			pages := walktest.Serve(t, sourceType, map[string]string{
				tt.path: tt.list("/e/jazz", "/e/quiz", "/about"), "/e/jazz": event("Jazz", "/e/jazz", "A quartet"),
				"/e/quiz": event("Quiz", "/e/quiz", "Ten rounds"),
				"/about":  walktest.Plain("About"), "/e/late": event("Late", "/e/late", "At night"),
			}, func(f *fetch.Fetcher) collect.Collector {
				read := site.New(f, time.Now)
				if sourceType == sitemap.Type {
					return sitemap.New(f, read)
				}
				return listing.New(read)
			})
			s := begin(t, pages.Source(tt.path), pages.Collector)
			s.expect("at first", "observed observed")
			s.expect("the same again", "")
			pages.Set("/e/quiz", event("Quiz", "/e/quiz", "Twelve rounds"))
			s.expect("a page has changed", "revised")
			pages.Handle("/e/quiz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusForbidden) })
			s.expect("a page is for members only", "")
			pages.Handle("/e/quiz", nil)
			pages.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			s.expect("another list", "observed went-stale")
			pages.Handle(tt.path, func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) })
			s.expect("the list fails", "")
			if _, failed := s.last().(source.CollectionFailed); !failed {
				t.Errorf("it ended with %+v", s.last())
			}
			pages.Handle(tt.path, nil)
			if sourceType == sitemap.Type {
				pages.Set(tt.path, strings.TrimSuffix(tt.list("/e/jazz"), "</urlset>"))
				s.expect("the list breaks off", "")
			}
			pages.Set(tt.path, tt.list("/e/jazz", "/e/late"))
			pages.Set("/e/late", "<html>Nothing here any more")
			s.expect("a page shows nothing", "went-stale")
		})
	}
}

// export is a calendar with an event for each line, which names title, place and days ahead. Each event has an UID
// that no calendar had before.
func export(number int, lines ...string) string {
	var b strings.Builder
	b.WriteString("BEGIN:VCALENDAR\r\n")
	for i, line := range lines {
		var title, place string
		var days int
		if _, err := fmt.Sscanf(line, "%s %s %d", &title, &place, &days); err != nil {
			panic(err)
		}
		fmt.Fprintf(&b, "BEGIN:VEVENT\r\nUID:random-%d-%d-{}\r\nSUMMARY:%s\r\nDTSTART:%s\r\n", number, i,
			strings.ReplaceAll(title, "_", " "),
			theHour.Add(time.Duration(days)*aDay).Format("20060102T150405Z"))
		if place != "-" {
			fmt.Fprintf(&b, "LOCATION:%s\r\n", strings.ReplaceAll(place, "_", " "))
		}
		b.WriteString("END:VEVENT\r\n")
	}
	return b.String() + "END:VCALENDAR\r\n"
}

// A calendar that invents UIDs at each export shows the same events: the missing ones have title and start of the new
// ones.
func TestNewUIDsAtEachExport(t *testing.T) {
	t.Parallel()
	var exports []string
	for n := 1; n <= 3; n++ {
		data := must.Get(os.ReadFile(filepath.Join("testdata", fmt.Sprintf("export%d.ics", n))))(t)
		exports = append(exports, strings.NewReplacer("20261129", theHour.Add(3*aDay).Format("20060102"), "UID:", "UID:{}").
			Replace(string(data)))
	}
	for name, tt := range map[string]struct {
		exports []string
		came    []string // of the second, the third and so on
		lost    bool     // the memory of walks, before each
	}{
		"others' calendar":          {exports, []string{"", ""}, false},
		"others', memory lost":      {exports, []string{"", ""}, true},
		"one place for all of them": {[]string{export(1, "Jazz Hall 3"), export(2, "Jazz Hall 3")}, []string{""}, false},
		"the place is written later": {[]string{export(1, "Jazz - 3"), export(2, "Jazz Hall 3"), export(3, "Jazz Barn 3")},
			[]string{"revised", "revised"}, false},
		"two rooms, the other way round": {
			[]string{export(1, "Quiz Attic 3", "Quiz Cellar 3"), export(2, "Quiz Cellar 3", "Quiz Attic 3")},
			[]string{""}, false,
		},
		"one is new": {[]string{export(1, "Jazz - 3", "Quiz - 4"), export(2, "Quiz - 4", "Jazz - 3", "Jazz - 5")},
			[]string{"observed"}, false},
		"a longer title": {[]string{export(1, "Krk_Quartet Barn 3"), export(2, "Krk_Quartet_and_friends Barn 3")},
			[]string{"revised"}, false},
		"another title": {[]string{export(1, "Jazz - 3"), export(2, "Quiz - 3")}, []string{"observed went-stale"}, false},
		"another start": {[]string{export(1, "Jazz - 3"), export(2, "Jazz - 4")}, []string{"observed went-stale"}, false},
		"the other is there": {[]string{export(1, "Jazz - 3"), export(1, "Jazz - 3", "Jazz - 3")},
			[]string{"observed"}, false},
		"called off meanwhile": {
			[]string{export(1, "Jazz_Night - 3"), export(2, "CANCELLED:_Jazz_Night - 3")}, []string{"revised"}, false,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pages := walktest.Serve(t, site.Type, map[string]string{"/all.ics": tt.exports[0]},
				func(f *fetch.Fetcher) collect.Collector { return site.New(f, time.Now) })
			s := begin(t, pages.Source("/all.ics"), pages.Collector)
			s.walk()
			for i, want := range append(tt.came, "") {
				if tt.lost {
					s.walks.Forget()
				}
				pages.Set("/all.ics", tt.exports[min(i+1, len(tt.exports)-1)])
				s.expect(fmt.Sprint("export ", i+2), want)
			}
			if n := s.walks.MaxEvidence(); n > 5 { // two ids and three words
				t.Errorf("a happening is remembered by %d pieces of evidence", n)
			}
		})
	}
}

// A source that earlier builds have walked shows the same events: under the ids that they had, also if two of them are
// one by now.
func TestWalksOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	l, show := &leaflets{}, func(key, title string) leaflet {
		return leaflet{view: []collect.Observation{view(key, title, 0, nil)}}
	}
	l.set("a", show("url:example.org/a", "Krk Quartet"))
	l.set("b", show("url:example.org/b", "Pub quiz"))
	s := l.begin(t)
	s.expect("before", "observed observed")
	for key, title := range map[string]string{"url:example.org/a": "krk quartet", "url:example.org/b": "pub quiz"} {
		id := happening.DeriveID(key)
		s.walks.Evidence(id, id, happening.DeriveID("programme:"+title+"|"+soon.UTC().Format(time.DateOnly)))
	}
	s.expect("after", "")
	l.set("b", show("url:example.org/c", "Pub quiz"))
	s.expect("by another key", "")
	l.set("b", show("url:example.org/c", "Krk Quartet"))
	s.expect("as the other one", "revised")
	s.expect("they stay two", "")
}

const aDay = 24 * time.Hour

// theHour is one for all pages, also of a test that goes on into the next.
var theHour = time.Now().UTC().Truncate(time.Hour)
