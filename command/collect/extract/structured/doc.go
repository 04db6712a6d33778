// Package structured reads happenings out of the structured data of a page.
//
//	page ──▶ a reader for each syntax ──▶ graph of items ──▶ candidates ──▶ observations
//
// A syntax needs only a reader that adds its items to the graph, with the terms of schema.org. Their meaning is
// independent of the syntax, so that a page leads to the same happenings in any syntax. The steps after candidates are
// the same for calendars and posts: see package candidate.
package structured

import (
	"net/url"

	"golang.org/x/net/html"

	"carillon/aggregates/source"
	"carillon/command/collect"
	"carillon/command/collect/budget"
	"carillon/command/collect/extract/candidate"
	"carillon/command/collect/extract/timing"
)

// Page is a page to read.
type Page struct {
	// URL is the address of the page.
	URL *url.URL
	// Root is the parsed page, see [Parse].
	Root *html.Node
	// Timezone is the source's configured zone. Optional.
	Timezone string
	// Versions are the languages and the references of the page's versions in other languages, besides those that the
	// page itself names. Optional.
	Versions [][2]string
	// Settings are the operators' for the source.
	Settings source.Settings
	// Window is the window of endless repetitions.
	Window timing.Window
}

const (
	// maxEvents and maxSchedules limit the work for one page.
	maxEvents    = 5000
	maxSchedules = 2000
)

// readers has one reader for each syntax.
var readers = []func(*graph){readJSONLD, readMicrodata, readRDFa, readMicroformats}

// bareReaders read what is no markup of events, each on pages for which those before it found none.
var bareReaders = []func(*graph){readAppData, readCalendarLinks, readTimes}

// Candidates returns the events of a page and their context, for callers that combine them with those of other pages.
// The results are invalid if the budget has ended.
func Candidates(b *budget.Budget, p Page) (candidate.Page, []*candidate.Candidate, collect.Notes) {
	d := newDocument(p, b)
	m := &mapper{
		graph:     &graph{document: d, byID: map[string]*item{}},
		expanded:  map[scheduled]expansion{},
		sanitised: map[string]string{},
	}
	found := m.selected()
	if len(found) == 0 {
		found = m.marked()
	}
	if len(found) == 0 && !p.Settings.IgnoreLists {
		found = m.lists()
	}
	return candidate.Page{
		URL:         p.URL,
		Canonical:   d.canonical,
		Base:        d.base,
		Timezone:    p.Timezone,
		Headings:    d.headings,
		Description: d.description,
		Image:       d.image,
		Versions:    d.versions,
		Window:      p.Window,
	}, found, d.notes
}

// marked returns the events in the first syntax that has any.
func (m *mapper) marked() []*candidate.Candidate {
	for _, read := range readers {
		read(m.graph)
	}
	events := m.events()
	for _, read := range bareReaders {
		if len(events) > 0 {
			break
		}
		read(m.graph)
		events = m.events()
	}
	if len(events) > maxEvents {
		m.notes.Add(collect.NoteTruncated, "the page shows %d events, of which %d are read", len(events), maxEvents)
		events = events[:maxEvents]
	}
	return m.candidates(events)
}
