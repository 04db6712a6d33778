package adapters_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/publication"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/collect/crawl/fetch"
	"carillon/command/collect/crawl/walktest"
	"carillon/command/collect/sources/listing"
	"carillon/command/collect/sources/site"
)

// told is a page's view of an event.
type toldEvent struct {
	title, url, more string
	in               time.Duration // from theHour to its start
}

// theHour is one for all pages, also of a test that goes on into the next.
var theHour = time.Now().UTC().Truncate(time.Hour)

// page is one that calls itself something, and shows events.
func (toldEvent) page(heading string, all ...toldEvent) string {
	var b strings.Builder
	fmt.Fprintf(&b, "<html><title>%s</title><h1>%[1]s</h1>", heading)
	for _, e := range all {
		fmt.Fprintf(&b, `<script type="application/ld+json">{"@type":"Event","name":%q,"startDate":%q,"location":"Town hall"`,
			e.title, theHour.Add(e.in).Format(time.RFC3339))
		if e.url != "" {
			fmt.Fprintf(&b, `,"url":%q`, e.url)
		}
		fmt.Fprintf(&b, "%s}</script>", e.more)
	}
	return b.String() + strings.Repeat(" words", 50)
}

// ownAddress is a site with a listing, of which the events' own pages are linked, and a feed of it.
type ownAddress struct {
	*world

	site         *walktest.Site
	source, feed uuid.UUID
}

func newOwnAddress(t *testing.T, files map[string]string) *ownAddress {
	t.Helper()
	s := walktest.Serve(lasting(t), listing.Type, files, func(f *fetch.Fetcher) collect.Collector {
		return listing.New(site.New(f, time.Now))
	})
	w := open(t, map[string]collect.Collector{listing.Type: s.Collector})
	o := &ownAddress{
		world:  w,
		site:   s,
		source: w.source(command.RegisterSource{Type: listing.Type, URL: s.URL + "/programme", Timezone: "Europe/Rome"}),
		feed:   w.feed(),
	}
	w.attach(o.feed, o.source, listing.Type)
	w.eventuallyState(o.source, 1, "ok")
	w.walk(o.source) // the backfill has ended
	return o
}

// show sets the pages, has them walked, and says what came of it.
func (o *ownAddress) show(files map[string]string) string {
	o.t.Helper()
	for path, file := range files {
		o.site.Set(path, file)
	}
	return o.walk(o.source)
}

const aDay = 24 * time.Hour

// ownPage is a listing that shows and links events, and the page of their address, which calls itself something else.
func ownPage(e ...toldEvent) map[string]string {
	return map[string]string{
		"/programme": toldEvent{}.page("Programme", e...) + `<a href="/e/1">more</a>`,
		"/e/1":       toldEvent{}.page("Welcome to the town hall", e...),
	}
}

// An event's own page is known by its address, whatever it calls itself: it and the listing that links it show one
// happening, as long as title or start stays. Where both are new, the page is used for another event. It is so with the
// memory of walks and without.
func TestAnEventsOwnPageIsKnownByItsAddress(t *testing.T) {
	t.Parallel()
	quartet := toldEvent{title: "Anna Schmidt Quartett", url: "/e/1", in: 3 * aDay}
	with := func(change func(*toldEvent)) toldEvent {
		e := quartet
		change(&e)
		return e
	}
	quiz := toldEvent{title: "Pub quiz", url: "/e/1", in: 5 * aDay}
	matinee := with(func(e *toldEvent) { e.in -= 5 * time.Hour })
	for name, tt := range map[string]struct {
		first  map[string]string // quartet, if it is empty
		then   map[string]string
		came   string
		titles []string // of the items
		last   string   // the result when both show the quiz; not tried if it is empty
	}{
		"as it was": {nil, ownPage(quartet), "", []string{quartet.title}, ""},
		"a typo in the title": {nil, ownPage(with(func(e *toldEvent) { e.title = "Anna Schmid Quartet" })),
			"revised", []string{"Anna Schmid Quartet"}, ""},
		"another title, the same hour": {nil, ownPage(with(func(e *toldEvent) { e.title = "Concert in the hall" })),
			"revised", []string{"Concert in the hall"}, ""},
		"it is moved": {nil, ownPage(with(func(e *toldEvent) { e.in += aDay })), "revised", []string{quartet.title}, ""},
		"next year's edition": {
			ownPage(with(func(e *toldEvent) { e.title += theHour.Add(e.in).Format(" 2006") })),
			ownPage(with(func(e *toldEvent) { e.in += 10 * aDay; e.title += theHour.Add(e.in).Format(" 2006") })),
			"revised", []string{quartet.title + theHour.Add(13*aDay).Format(" 2006")}, "",
		},
		"the page is another event's": {nil, ownPage(quiz), "observed went-stale", []string{quartet.title, "Pub quiz"}, ""},
		"the listing knows it first": {nil, map[string]string{"/programme": ownPage(quiz)["/programme"]}, "observed",
			[]string{quartet.title, "Pub quiz"}, "revised went-stale"},
		"its page knows it first": {nil, map[string]string{"/e/1": ownPage(quiz)["/e/1"]}, "observed revised",
			[]string{quartet.title, "Pub quiz"}, "went-stale"},
		"matinee and evening": {ownPage(matinee, quartet), ownPage(matinee, quartet), "", []string{quartet.title}, ""},
		"matinee and evening of another": {
			ownPage(matinee, quartet), ownPage(with(func(e *toldEvent) { e.title = "Hamlet"; e.in += aDay }),
				with(func(e *toldEvent) { e.title = "Hamlet"; e.in += aDay + 5*time.Hour })),
			"observed went-stale", []string{quartet.title, "Hamlet"}, "",
		},
		"the evening is no more": {ownPage(matinee, quartet), ownPage(matinee), "revised", []string{quartet.title}, ""},
		"#event on each page": {
			map[string]string{
				"/programme": toldEvent{}.page("Programme", quartet) + `<a href="/e/1">more</a>`,
				"/e/1":       toldEvent{}.page("Welcome", with(func(e *toldEvent) { e.url, e.more = "", `,"@id":"#event"` })),
			},
			map[string]string{
				"/programme": toldEvent{}.page("Programme", quiz) + `<a href="/e/1">more</a>`,
				"/e/1":       toldEvent{}.page("Welcome", toldEvent{title: quiz.title, in: quiz.in, more: `,"@id":"#event"`}),
			}, "observed went-stale", []string{quartet.title, "Pub quiz"}, "",
		},
	} {
		for _, memory := range []string{"remembered", "lost"} {
			t.Run(name+", "+memory, func(t *testing.T) {
				t.Parallel()
				first := tt.first
				if first == nil {
					first = ownPage(quartet)
				}
				o := newOwnAddress(t, first)
				if got := o.happened(); len(got) != 1 || got[0] != "observed" {
					t.Fatalf("listing and page came to %q", got)
				}
				lose := func() {
					if memory == "lost" { // nothing but the events is left
						o.loseWalks()
					}
				}
				lose()
				if got := o.show(tt.then); got != tt.came {
					t.Errorf("it came to %q, want %q", got, tt.came)
				}
				lose()
				if again := o.walk(o.source); again != "" {
					t.Errorf("the same again came to %q", again)
				}
				if tt.last != "" {
					lose()
					if got := o.show(ownPage(quiz)); got != tt.last {
						t.Errorf("in the end it came to %q, want %q", got, tt.last)
					}
				}
				o.eventuallyItems(o.feed, tt.titles...)
				o.eventually("new happenings are published", func() bool {
					return o.publishedAs("event.item.added") == len(tt.titles)-1
				})
				if n := len(o.recorded("item.added.v1")); n != len(tt.titles) {
					t.Errorf("%d items, want %d", n, len(tt.titles))
				}
			})
		}
	}
}

// publishedAs counts what was published of a type.
func (w *world) publishedAs(kind string) (n int) {
	w.t.Helper()
	for _, recorded := range w.recorded("publication.event-published.v1") {
		event, err := publication.Events.Decode(&recorded)
		if err != nil {
			w.t.Fatal(err)
		}
		if p, ok := event.(publication.Published); ok && p.Type == kind {
			n++
		}
	}
	return n
}
