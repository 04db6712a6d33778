// Package site collects from one page: a calendar, a programme, the page of a single event.
//
//	fetch, unless unchanged ──▶ read by media type ──▶ observations
//
// The calendars that a page links belong to it: what a page and its calendar tell of one event is one observation.
//
// A page that hasn't changed is still read anew when the window moves within which endless repetitions are expanded,
// which is once a month.
package site

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/command/collect/fetch"
	"carillon/command/collect/timing"
)

// Type is the source type that this package serves.
const Type = "site"

// Pages gets pages; [fetch.Fetcher] does.
type Pages interface {
	Get(ctx context.Context, url string, known fetch.Validators) (*fetch.Page, error)
}

// Collector is the collector of type site.
type Collector struct {
	pages  Pages
	window func() timing.Window
}

var _ collect.Collector = (*Collector)(nil)

// New makes a Collector. What has no end it expands within the window around now.
func New(pages Pages, now func() time.Time) *Collector {
	return &Collector{pages: pages, window: func() timing.Window { return timing.WindowAt(now()) }}
}

// Within makes a Collector that expands within a given window, and so shows the same of a page at any time.
func Within(pages Pages, window timing.Window) *Collector {
	return &Collector{pages: pages, window: func() timing.Window { return window }}
}

// reading is the version of how pages are read. A higher one makes pages be read again that haven't changed.
const reading = 2

// state is what collect.State holds. All but the validators say under which conditions these may be used.
type state struct {
	Reading    int              `json:"reading"`
	URL        string           `json:"url"`
	Timezone   string           `json:"timezone,omitempty"`
	Window     string           `json:"window"`
	Validators fetch.Validators `json:"validators"`
	// Calendars are those that the page links, in order.
	Calendars [maxCalendars]fetch.Validators `json:"calendars,omitzero"`
}

// Start implements collect.Collector.
func (*Collector) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.URL}}
}

// Read gets the page, and the calendars that it links, and reads them.
func (c *Collector) Read(ctx context.Context, source collect.Source, page collect.Known) (collect.Page, error) {
	window := c.window()
	next := state{Reading: reading, URL: page.Address, Timezone: source.Timezone, Window: window.Key()}
	v := &visit{pages: c.pages, source: source, address: page.Address, window: window, known: next.known(page.State), have: map[string]*fetch.Page{}}
	read, err := v.read(ctx)
	if err != nil {
		return collect.Page{}, fmt.Errorf("collect site: %w", err)
	}
	next.Validators, next.Calendars = v.next.Validators, v.next.Calendars
	if read.State, err = next.encode(); err != nil {
		return collect.Page{}, fmt.Errorf("collect site: encode state: %w", err)
	}
	read.Requests, read.Partial = v.fetched, read.Notes.Partial()
	for i := range read.Observations {
		read.Observations[i].Source = happening.Block{Type: Type, URL: source.URL}
	}
	return read, nil
}

// known gives the last state, if it was made under the same conditions. One that can't be read is of none.
func (s state) known(from collect.State) state {
	var last state
	if json.Unmarshal(from, &last) != nil {
		return state{}
	}
	conditions := last
	conditions.Validators, conditions.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	if conditions != s {
		return state{}
	}
	return last
}

// encode gives the state as it is stored. One that would be too long does without what makes requests conditional.
func (s state) encode() (collect.State, error) {
	data, err := json.Marshal(s)
	if err != nil || len(data) <= collect.MaxState {
		return data, err //nolint:wrapcheck // the caller says what it is
	}
	s.Validators, s.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	return json.Marshal(s) //nolint:wrapcheck // as above
}
