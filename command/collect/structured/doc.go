// Package structured reads happenings out of the structured data of a page.
//
//	page ──▶ a reader for each syntax ──▶ graph of items ──▶ events ──▶ observations
//
// A syntax of schema.org terms (JSON-LD; later Microdata and RDFa) needs only a
// reader that adds its items to the graph: see readJSONLD and the list readers.
// What an item means is decided once, behind the graph, so that a page gives the
// same happenings in whichever syntax it is written. Syntaxes with terms of
// their own (microformats, iCalendar) make candidates themselves and share what
// comes after: days, keys, grouping.
//
// The same event found several times on a page is one happening; events that
// share all but the date are instances of one.
package structured

import (
	"net/url"
	"time"

	"github.com/PuerkitoBio/goquery"

	"carillon/command/collect"
	"carillon/command/collect/timing"
)

// Page is a page to read.
type Page struct {
	// URL is where the page was found.
	URL *url.URL
	// Document is the parsed page.
	Document *goquery.Document
	// Timezone is the source's configured zone, or "".
	Timezone string
	// Now decides the window within which endless repetitions are expanded.
	Now time.Time
}

// Result is what a page shows.
type Result struct {
	// Observations have Source unset: that is the collector's.
	Observations []collect.Observation
	Notes        []collect.Note
}

const (
	// maxObservations caps the happenings of one page.
	maxObservations = 2000
	// maxOccurrences caps the occurrences of one happening, so that it fits
	// into an event of the store.
	maxOccurrences = 1000
	// maxEvents and maxSchedules cap the work that one page can cause.
	maxEvents    = 5000
	maxSchedules = 2000
	// shortLength is where a description is cut for want of a short one.
	shortLength = 200
)

// readers are the syntaxes of schema.org terms that are read, in the order in
// which their items count when one event is there in several.
var readers = []func(*document, *graph){readJSONLD}

// Read gives the happenings of a page.
func Read(p Page) Result {
	d := newDocument(p)
	g := newGraph(d)
	for _, read := range readers {
		read(d, g)
	}
	events := g.events()
	if len(events) > maxEvents {
		d.note(collect.NoteTruncated, "the page shows %d events, of which %d are read", len(events), maxEvents)
		events = events[:maxEvents]
	}
	m := &mapper{document: d, graph: g, window: timing.WindowAt(p.Now), expanded: map[scheduled][]timing.Range{}}
	candidates := m.candidates(events)
	d.assignKeys(candidates)
	observations := m.observations(candidates)
	return Result{Observations: observations, Notes: d.notes}
}
