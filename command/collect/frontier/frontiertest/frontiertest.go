// Package frontiertest is the contract of what remembers walks: every implementation passes it.
package frontiertest

import (
	"context"
	"errors"
	"slices"
	"strconv"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
)

// Subject remembers the walks through one source.
type Subject interface {
	collect.Frontier

	// Begin begins a walk; one that is under way ends.
	Begin(t *testing.T, start []collect.Link)
	// Record keeps what came of a page.
	Record(t *testing.T, visited collect.Visited)
	// Age lets time pass.
	Age(t *testing.T, d time.Duration)
}

// Run holds an implementation to the contract. open gives one that remembers nothing.
func Run(t *testing.T, open func(*testing.T) Subject) {
	t.Helper()
	for name, check := range map[string]func(*testing.T, Subject){
		"what is asked for, and in which order":     order,
		"a page is ahead until it is recorded":      untilRecorded,
		"a walk ends with the host":                 resting,
		"a list that fails still links its pages":   failingList,
		"what a page is remembered by comes back":   remembered,
		"pages that show nothing are left alone":    barren,
		"a list that says all is new is not obeyed": modified,
		"a change to come is none":                  toCome,
		"a page that is linked twice is read once":  twice,
		"what is read in part may show the rest":    part,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			check(t, open(t))
		})
	}
}

// web is a collector of pages that are told beforehand. A list that is remembered is unchanged.
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

// walk gives the addresses that are asked for, in order.
func walk(t *testing.T, w collect.Collector, s Subject) (asked []string) {
	t.Helper()
	s.Begin(t, w.Start(collect.Source{}))
	for visited, err := range collect.Walk(t.Context(), w, collect.Source{}, s) {
		if err != nil {
			t.Fatal(err)
		}
		s.Record(t, visited)
		asked = append(asked, visited.Known.Address)
	}
	return asked
}

func expect(t *testing.T, w collect.Collector, s Subject, want ...string) {
	t.Helper()
	if got := walk(t, w, s); !slices.Equal(got, want) {
		t.Errorf("asked for %v, want %v", got, want)
	}
}

// shows is a page of a happening that is over after so many days.
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
	// Lists are unchanged and still link their pages. What shows events to come is asked for first; what is dated and
	// has not changed, is barren or could not be had, not so soon.
	s.Age(t, time.Hour)
	expect(t, w, s, "root", "list", "post", "current")
	// The list is lost: what it alone named is asked for no more, but for the post that lasts. The one that was never
	// there does not.
	w["root"] = links(`2`, collect.Link{Address: "dated", Modified: "2026-11-23"}, collect.Link{Address: "barren"},
		collect.Link{Address: "gone"})
	s.Age(t, 24*time.Hour)
	expect(t, w, s, "root", "post", "dated", "gone", "barren")
}

func untilRecorded(t *testing.T, s Subject) {
	s.Begin(t, []collect.Link{{Address: "a"}, {Address: "b"}})
	for range 2 { // as after a kill
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
	s.Age(t, 40*24*time.Hour) // longer than a list is believed
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
	// and so is asked conditionally
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
	expect(t, w, s, "root", "a") // it shows something to come
}

// Lists that say of all pages that they have changed just now hurry those that have shown nothing, or nothing to come,
// only a little, and the less the longer that is so.
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
		{24, []string{"root", "current", "over", "empty"}}, // never less than once a day
	} {
		s.Age(t, time.Duration(step.hours)*time.Hour)
		expect(t, says(), s, step.want...)
	}
}

// Some lists give the date of the event for that of its page: it stays when the page changes.
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
