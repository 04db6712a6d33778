// Package structured reads happenings out of the structured data of a page.
//
//	page ──▶ a reader for each syntax ──▶ graph of items ──▶ candidates ──▶ observations
//
// A syntax needs only a reader that adds its items to the graph, in the terms of schema.org. What an item means is
// decided once, behind the graph, so that a page gives the same happenings in whichever syntax it is written. What
// comes after candidates is the same for calendars and posts, too: see package candidate.
package structured

import (
	"fmt"
	"net/url"

	"golang.org/x/net/html"

	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/candidate"
	"carillon/command/collect/timing"
)

// Page is a page to read.
type Page struct {
	// URL is where the page was found.
	URL *url.URL
	// Root is the parsed page, see [Parse].
	Root *html.Node
	// Timezone is the source's configured zone, or "".
	Timezone string
	// Window is within which endless repetitions are expanded.
	Window timing.Window
}

const (
	// maxEvents and maxSchedules cap the work that one page can cause.
	maxEvents    = 5000
	maxSchedules = 2000
)

// readers are the syntaxes that are read.
var readers = []func(*document, *graph){readJSONLD, readMicrodata, readRDFa, readMicroformats}

// Read gives the happenings of a page. It fails with [collect.ErrTooComplex] or the context's error, where the budget
// ends before the page does.
func Read(b *budget.Budget, p Page) (candidate.Result, error) {
	page, found, notes := Candidates(b, p)
	result := candidate.Observe(b, page, found)
	if err := b.Err(); err != nil {
		return candidate.Result{}, fmt.Errorf("read structured data: %w", err)
	}
	result.Notes = append(notes, result.Notes...)
	return result, nil
}

// Candidates gives the events of a page and what they are judged against, for those who put them together with what
// other pages tell. Where the budget ends meanwhile, they mean nothing.
func Candidates(b *budget.Budget, p Page) (candidate.Page, []*candidate.Candidate, collect.Notes) {
	d := newDocument(p, b)
	g := newGraph(d, b)
	for _, read := range readers {
		read(d, g)
	}
	events := g.events()
	if len(events) > maxEvents {
		d.notes.Add(collect.NoteTruncated, "the page shows %d events, of which %d are read", len(events), maxEvents)
		events = events[:maxEvents]
	}
	m := &mapper{
		document:  d,
		graph:     g,
		window:    p.Window,
		expanded:  map[scheduled]expansion{},
		sanitised: map[string]string{},
	}
	found := m.candidates(events)
	return candidate.Page{
		URL:         p.URL,
		Canonical:   d.canonical,
		Base:        d.base,
		Timezone:    p.Timezone,
		Headings:    d.headings,
		Description: d.description,
		Image:       d.image,
		Window:      p.Window,
	}, found, d.notes
}
