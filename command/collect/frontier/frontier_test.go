package frontier_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/frontier"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// web is a collector of pages that are told beforehand.
type web map[string]collect.Page

func (web) Start(collect.Source) []collect.Link {
	return []collect.Link{{Address: "root", List: true}}
}

func (w web) Read(_ context.Context, _ collect.Source, known collect.Known) (collect.Page, error) {
	page, ok := w[known.Address]
	if !ok {
		return collect.Page{}, &collect.StatusError{Code: 404}
	}
	if known.State != nil && known.List {
		return collect.Page{Unchanged: true, State: known.State}, nil
	}
	page.State = collect.State(`1`)
	return page, nil
}

// walk gives the addresses that are asked for, in order.
func walk(t *testing.T, w web, m *frontier.Memory, now time.Time) (asked []string) {
	t.Helper()
	for visited, err := range collect.Walk(t.Context(), w, collect.Source{}, m) {
		if err != nil {
			t.Fatal(err)
		}
		m.Record(visited, now)
		asked = append(asked, visited.Known.Address)
	}
	return asked
}

func shows(until time.Time) collect.Page {
	return collect.Page{Observations: []collect.Observation{{Details: happening.Details{
		Instances: []happening.Instance{{Occurrences: []happening.Occurrence{{Start: until}}}},
	}}}}
}

func TestWalks(t *testing.T) {
	t.Parallel()
	w := web{
		"root":    {Links: []collect.Link{{Address: "barren"}, {Address: "dated", Modified: "2026-11-01"}, {Address: "list", List: true}, {Address: "gone"}}},
		"list":    {Links: []collect.Link{{Address: "current"}, {Address: "root", List: true}, {Address: "post", Lasting: true}, {Address: "lost", Lasting: true}}},
		"barren":  {},
		"dated":   shows(now.AddDate(0, 1, 0)),
		"current": shows(now.AddDate(0, 1, 0)),
		"post":    shows(now.AddDate(0, 1, 0)),
	}
	m := frontier.New(w.Start(collect.Source{}), now)
	if got, want := walk(t, w, m, now), []string{"root", "list", "barren", "dated", "gone", "current", "post", "lost"}; !slices.Equal(got, want) {
		t.Errorf("first %v, want %v", got, want)
	}
	if done, all := m.Progress(); done != 8 || all != 8 {
		t.Errorf("progress %d of %d", done, all)
	}
	// Lists are unchanged and still link their pages. What shows events to come is asked for first, what is dated and
	// has not changed, is barren or could not be had, not so soon.
	later := now.Add(time.Hour)
	m.Begin(w.Start(collect.Source{}), later)
	if got, want := walk(t, w, m, later), []string{"root", "list", "post", "current"}; !slices.Equal(got, want) {
		t.Errorf("second %v, want %v", got, want)
	}
	if gone := m.Unlisted(); len(gone) != 0 {
		t.Errorf("unlisted %v", gone)
	}
	// The list is lost: what it alone named is gone, but for the post that lasts. The one that was never there is not.
	w["root"] = collect.Page{Links: []collect.Link{{Address: "dated", Modified: "2026-11-23"}, {Address: "barren"}, {Address: "gone"}}}
	m = reread(t, w, m)
	later = later.Add(24 * time.Hour)
	m.Begin(w.Start(collect.Source{}), later)
	if got, want := walk(t, w, m, later), []string{"root", "post", "dated", "gone", "barren"}; !slices.Equal(got, want) {
		t.Errorf("third %v, want %v", got, want)
	}
	if gone := m.Unlisted(); !slices.Equal(gone, []string{"current", "list", "lost"}) {
		t.Errorf("unlisted %v", gone)
	}
}

// reread makes the frontier forget by what it remembers the root.
func reread(t *testing.T, w web, m *frontier.Memory) *frontier.Memory {
	t.Helper()
	m.Begin(w.Start(collect.Source{}), now)
	known, ok, err := m.Next(t.Context())
	if err != nil || !ok || known.Address != "root" {
		t.Fatal(known, ok, err)
	}
	m.Record(collect.Visited{Known: known, Page: collect.Page{}}, now)
	return m
}

func TestAWalkEndsWithTheHost(t *testing.T) {
	t.Parallel()
	m := frontier.New([]collect.Link{{Address: "a"}, {Address: "b"}}, now)
	resting := resting{}
	for visited, err := range collect.Walk(t.Context(), resting, collect.Source{}, m) {
		if !errors.Is(err, collect.ErrResting) || visited.Known.Address != "a" {
			t.Fatal(visited, err)
		}
	}
	if known, ok, _ := m.Next(t.Context()); !ok || known.Address != "a" {
		t.Errorf("the page is not ahead any more: %+v", known)
	}
}

type resting struct{ web }

func (resting) Read(context.Context, collect.Source, collect.Known) (collect.Page, error) {
	return collect.Page{}, &collect.RestError{For: time.Minute}
}
