// Package site collects from one page: a calendar, a programme, the page of a single event.
//
//	fetch, unless unchanged ──▶ read by media type ──▶ observations
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

// cursor is what collect.Cursor holds. All but the validators say under which conditions these may be used.
type cursor struct {
	Reading    int              `json:"reading"`
	URL        string           `json:"url"`
	Timezone   string           `json:"timezone,omitempty"`
	Window     string           `json:"window"`
	Validators fetch.Validators `json:"validators"`
	// Calendars are those that the page links, in order.
	Calendars [maxCalendars]fetch.Validators `json:"calendars,omitzero"`
}

// Collect gets the page, and the calendars that it links, and reads them.
func (c *Collector) Collect(ctx context.Context, source collect.Source, from collect.Cursor) (collect.Result, error) {
	window := c.window()
	next := cursor{Reading: reading, URL: source.URL, Timezone: source.Timezone, Window: window.Key()}
	v := &visit{pages: c.pages, source: source, window: window, known: next.known(from), have: map[string]*fetch.Page{}}
	result, err := v.collect(ctx)
	if err != nil {
		return collect.Result{}, fmt.Errorf("collect site: %w", err)
	}
	next.Validators, next.Calendars = v.next.Validators, v.next.Calendars
	if result.Cursor, err = next.encode(); err != nil {
		return collect.Result{}, fmt.Errorf("collect site: encode cursor: %w", err)
	}
	for i := range result.Observations {
		result.Observations[i].Source = happening.Block{Type: Type, URL: source.URL}
	}
	return result, nil
}

// known gives the last cursor, if it was made under the same conditions. One that can't be read is of none.
func (c cursor) known(from collect.Cursor) cursor {
	var last cursor
	if json.Unmarshal(from, &last) != nil {
		return cursor{}
	}
	conditions := last
	conditions.Validators, conditions.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	if conditions != c {
		return cursor{}
	}
	return last
}

// maxCursor is how long a cursor may be: it lies in an event.
const maxCursor = 4 << 10

// encode gives the cursor as it is stored. One that would be too long does without what makes requests conditional.
func (c cursor) encode() (collect.Cursor, error) {
	data, err := json.Marshal(c)
	if err != nil || len(data) <= maxCursor {
		return data, err //nolint:wrapcheck // the caller says what it is
	}
	c.Validators, c.Calendars = fetch.Validators{}, [maxCalendars]fetch.Validators{}
	return json.Marshal(c) //nolint:wrapcheck // as above
}
