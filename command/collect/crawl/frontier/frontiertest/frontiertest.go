// Package frontiertest tests implementations of stored walks against their contract.
package frontiertest

import (
	"context"
	"errors"
	"strconv"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// Subject stores the walks through one source.
type Subject interface {
	collect.Frontier

	// Begin begins a walk, and ends a current one.
	Begin(t *testing.T, start []collect.Link)
	// Record stores the result of a page.
	Record(t *testing.T, visited collect.Visited)
	// Age advances the time.
	Age(t *testing.T, d time.Duration)
}

// Run tests an implementation against the contract. open returns an empty one.
func Run(t *testing.T, open func(*testing.T) Subject) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Subject){
		"pages to fetch, in order":                  order,
		"a page is ahead until it is recorded":      untilRecorded,
		"a walk ends with the host":                 resting,
		"a list that fails still links its pages":   failingList,
		"validators of a page come back":            remembered,
		"barren pages are fetched later":            barren,
		"a list that says all is new is not obeyed": modified,
		"a change to come is none":                  toCome,
		"a page that is linked twice is read once":  twice,
		"a page read in part may show the rest":     part,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// web is a collector of given pages. A list with a state is unchanged.
type web map[string]collect.Page

// Start implements collect.Collector.
func (web) Start(collect.Source) []collect.Link { return []collect.Link{{Address: "root", List: true}} }

// Read implements collect.Collector.
func (w web) Read(_ context.Context, _ collect.Source, known collect.Known) (collect.Page, error) {
	page, ok := w[known.Address]
	switch {
	case !ok:
		return collect.Page{}, &collect.StatusError{Code: 404}
	case len(page.State) > 0 && string(page.State) == string(known.State):
		return collect.Page{Unchanged: true, State: known.State}, nil
	}
	return page, nil
}

// walk returns the addresses of fetched pages, in order.
func walk(t *testing.T, w collect.Collector, s Subject) (asked []string) {
	t.Helper()
	s.Begin(t, w.Start(collect.Source{}))
	for visited, err := range collect.Walk(t.Context(), w, collect.Source{}, s) {
		must.OK(t, err)
		s.Record(t, visited)
		asked = append(asked, visited.Known.Address)
	}
	return asked
}

func expect(t *testing.T, w collect.Collector, s Subject, want ...string) {
	t.Helper()
	assert.Slices(t, walk(t, w, s), want, "asked for")
}

// shows returns a page with a happening that ends after a number of days.
func shows(days int) collect.Page {
	return collect.Page{Observations: []collect.Observation{{Key: "x", Details: happening.Details{
		Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: time.Now().UTC().AddDate(0, 0, days).
			Truncate(time.Second)}}}},
	}}}}
}

func links(state string, list ...collect.Link) collect.Page {
	return collect.Page{Links: list, State: collect.State(state)}
}

func order(t *testing.T, s Subject) {
	w := web{
		"root": links(`1`, collect.Link{Address: "barren"}, collect.Link{Address: "dated", Modified: "2026-11-01"},
			collect.Link{Address: "list", List: true}, collect.Link{Address: "gone"}),
		"list": links(`1`, collect.Link{Address: "current"}, collect.Link{Address: "root", List: true},
			collect.Link{Address: "post", Lasting: true}, collect.Link{Address: "lost", Lasting: true}),
		"barren": {}, "dated": shows(60), "current": shows(60), "post": shows(60),
	}
	expect(t, w, s, "root", "list", "barren", "dated", "gone", "current", "post", "lost")
	// Lists are unchanged and still link their pages. Pages with events to come are fetched first; unchanged dated ones,
	// barren ones and failed ones later.
	s.Age(t, time.Hour)
	expect(t, w, s, "root", "list", "post", "current")
	// Without the list, pages that only it named are not fetched, except for the lasting post. One that never existed
	// does not last.
	w["root"] = links(`2`, collect.Link{Address: "dated", Modified: "2026-11-23"}, collect.Link{Address: "barren"},
		collect.Link{Address: "gone"})
	s.Age(t, 24*time.Hour)
	expect(t, w, s, "root", "post", "dated", "gone", "barren")
}

func untilRecorded(t *testing.T, s Subject) {
	s.Begin(t, []collect.Link{{Address: "a"}, {Address: "b"}})
	for range 2 { // as after a crash
		if known, ok, err := s.Next(t.Context()); err != nil || !ok || known.Address != "a" || !known.Root {
			t.Fatalf("next is %+v, %t, %v", known, ok, err)
		}
	}
	known, _, _ := s.Next(t.Context())
	s.Record(t, collect.Visited{Known: known})
	if known, ok, err := s.Next(t.Context()); err != nil || !ok || known.Address != "b" {
		t.Fatalf("next is %+v, %t, %v", known, ok, err)
	}
}

type restingWeb struct{ web }

// Read implements collect.Collector.
func (restingWeb) Read(context.Context, collect.Source, collect.Known) (collect.Page, error) {
	return collect.Page{}, &collect.RestError{For: time.Minute}
}

func resting(t *testing.T, s Subject) {
	s.Begin(t, []collect.Link{{Address: "a"}, {Address: "b"}})
	visits := 0
	for visited, err := range collect.Walk(t.Context(), restingWeb{}, collect.Source{}, s) {
		if visits++; !errors.Is(err, collect.ErrResting) || visited.Known.Address != "a" {
			t.Fatal(visited, err)
		}
	}
	if known, ok, _ := s.Next(t.Context()); !ok || known.Address != "a" || visits != 1 {
		t.Errorf("after %d visits the page is not ahead any more: %+v", visits, known)
	}
}

func failingList(t *testing.T, s Subject) {
	w := failing{web: web{"root": links(`1`, collect.Link{Address: "list", List: true}),
		"list": links(`1`, collect.Link{Address: "a"}), "a": shows(9)}}
	expect(t, &w, s, "root", "list", "a")
	w.at = "list"
	expect(t, &w, s, "root", "list", "a")
}

type failing struct {
	web

	at string
}

// Read implements collect.Collector.
func (f *failing) Read(ctx context.Context, source collect.Source, known collect.Known) (collect.Page, error) {
	if known.Address == f.at {
		return collect.Page{}, collect.ErrTimeout
	}
	return f.web.Read(ctx, source, known)
}

func remembered(t *testing.T, s Subject) {
	page := shows(3)
	page.State = collect.State(`{"etag": "x"}`)
	w := web{"root": links("", collect.Link{Address: "a", Role: "page", Modified: "yesterday"}), "a": page}
	expect(t, w, s, "root", "a")
	s.Age(t, 40*24*time.Hour) // longer than a list's report of no change counts
	s.Begin(t, w.Start(collect.Source{}))
	root, _, _ := s.Next(t.Context())
	s.Record(t, collect.Visited{Known: root, Page: w["root"]})
	got, ok, err := s.Next(t.Context())
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	if got.Address != "a" || got.Role != "page" || got.Modified != "yesterday" || got.ReadModified != "yesterday" ||
		got.Root || got.List {
		t.Errorf("the page is %+v", got.Link)
	}
	if string(got.State) != `{"etag": "x"}` || got.Shown != 1 || got.Barren != 0 || got.ReadAt.IsZero() ||
		got.AskedAt.IsZero() || got.Until.IsZero() {
		t.Errorf("remembered is %+v", got)
	}
}

func barren(t *testing.T, s Subject) {
	// the state makes the request conditional
	w := web{"root": links("", collect.Link{Address: "a"}), "a": {State: collect.State(`"as it was"`)}}
	expect(t, w, s, "root", "a")
	for _, hours := range []int{12, 24, 48} {
		s.Age(t, time.Duration(hours-1)*time.Hour)
		expect(t, w, s, "root")
		s.Age(t, time.Hour)
		expect(t, w, s, "root", "a")
	}
	w["a"] = shows(100)
	s.Age(t, 96*time.Hour)
	expect(t, w, s, "root", "a")
	expect(t, w, s, "root", "a") // it has a happening to come
}

// Lists that report changes of all pages at all times speed up pages without happenings ahead only a little, and less
// the longer they have none.
func modified(t *testing.T, s Subject) {
	now := 0
	says := func() web {
		now++
		m := strconv.Itoa(now)
		return web{
			"root": links("", collect.Link{Address: "empty", Modified: m}, collect.Link{Address: "over", Modified: m},
				collect.Link{Address: "current", Modified: m}),
			"empty":   {State: collect.State(`"as it was"`)},
			"over":    shows(-3),
			"current": shows(60),
		}
	}
	expect(t, says(), s, "root", "empty", "over", "current")
	for _, step := range []struct {
		hours int
		want  []string
	}{
		{1, []string{"root", "current"}},
		{2, []string{"root", "current", "over", "empty"}},
		{3, []string{"root", "current", "over"}},
		{3, []string{"root", "current", "over", "empty"}},
		{6, []string{"root", "current", "over"}},
		{6, []string{"root", "current", "over", "empty"}},
		{23, []string{"root", "current", "over"}},
		{1, []string{"root", "current", "empty"}},
		{24, []string{"root", "current", "over", "empty"}}, // at least once a day
	} {
		s.Age(t, time.Duration(step.hours)*time.Hour)
		expect(t, says(), s, step.want...)
	}
}

// Some lists have the date of the event as that of its page, which stays when the page changes.
func toCome(t *testing.T, s Subject) {
	at := time.Now().UTC().AddDate(0, 0, 60)
	w := web{
		"root": links("", collect.Link{Address: "a", Modified: at.Format(time.DateOnly)},
			collect.Link{Address: "b", Modified: at.Format(time.RFC3339)},
			collect.Link{Address: "c", Modified: at.AddDate(0, 0, -61).Format(time.DateOnly)}),
		"a": shows(60), "b": shows(60), "c": shows(60),
	}
	expect(t, w, s, "root", "a", "b", "c")
	s.Age(t, time.Hour)
	expect(t, w, s, "root", "a", "b")
}

func twice(t *testing.T, s Subject) {
	a, b := collect.Link{Address: "a"}, collect.Link{Address: "b", List: true}
	w := web{"root": links("", a, b, a), "b": links("", a, b, collect.Link{Address: "root"}), "a": {}}
	expect(t, w, s, "root", "b", "a")
}

func part(t *testing.T, s Subject) {
	w := web{"root": links("", collect.Link{Address: "a"}), "a": shows(9)}
	expect(t, w, s, "root", "a")
	w["a"] = collect.Page{Partial: true}
	expect(t, w, s, "root", "a")
	expect(t, w, s, "root", "a")
}
