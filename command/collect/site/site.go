// Package site collects from one page: a calendar, a programme, the page of a
// single event.
//
//	fetch, unless unchanged ──▶ read by media type ──▶ observations
//
// A page that hasn't changed is still read anew when the window moves within
// which endless repetitions are expanded, which is once a month.
package site

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

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
	pages Pages
	now   func() time.Time
}

var _ collect.Collector = (*Collector)(nil)

// New makes a Collector.
func New(pages Pages, now func() time.Time) *Collector {
	return &Collector{pages: pages, now: now}
}

// reading is the version of how pages are read. A higher one makes pages be
// read again that haven't changed.
const reading = 1

// cursor is what collect.Cursor holds. All but the validators say under which
// conditions these may be used.
type cursor struct {
	Reading    int              `json:"reading"`
	URL        string           `json:"url"`
	Timezone   string           `json:"timezone,omitempty"`
	Window     string           `json:"window"`
	Validators fetch.Validators `json:"validators"`
}

// Collect gets the page and reads it.
func (c *Collector) Collect(ctx context.Context, source collect.Source, from collect.Cursor) (collect.Result, error) {
	now := c.now()
	next := cursor{Reading: reading, URL: source.URL, Timezone: source.Timezone, Window: timing.WindowAt(now).Key()}
	page, err := c.pages.Get(ctx, source.URL, next.known(from))
	if err != nil {
		return collect.Result{}, fmt.Errorf("collect site: %w", err)
	}
	next.Validators = page.Validators
	result := collect.Result{Pages: 1, NotModified: page.NotModified}
	if result.Cursor, err = json.Marshal(next); err != nil {
		return collect.Result{}, fmt.Errorf("collect site: encode cursor: %w", err)
	}
	if page.NotModified {
		return result, nil
	}
	found, err := Read(ctx, page, source, now)
	if err != nil {
		return collect.Result{}, fmt.Errorf("collect site: %w", err)
	}
	result.Observations, result.Notes = found.Observations, found.Notes
	for i := range result.Observations {
		result.Observations[i].Source = collect.SourceBlock{Type: Type, URL: source.URL}
	}
	return result, nil
}

// known gives the validators of the last cursor, if it was made under the same
// conditions. A cursor that can't be read is of none.
func (c cursor) known(from collect.Cursor) fetch.Validators {
	var last cursor
	if json.Unmarshal(from, &last) != nil {
		return fetch.Validators{}
	}
	validators := last.Validators
	last.Validators = fetch.Validators{}
	if last != c {
		return fetch.Validators{}
	}
	return validators
}
