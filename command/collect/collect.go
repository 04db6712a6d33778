// Package collect says what it is to collect happenings from a source.
//
// Each source type is a package below this one that implements [Collector]: it says with which pages a walk of a source
// begins, and reads one page after the other. A page shows happenings and links further pages; [Walk] goes from one to
// the next until none is ahead. A collector changes nothing, remembers nothing and decides nothing about what is known
// already: whoever walks records each page before the next is asked for.
//
//	Start ──▶ links ──▶ frontier ──next──▶ Read: fetch, read (structured, …) ──▶ page: observations, links
//	                        ▲                                                          │
//	                        └───────────────────────── record ◀────────────────────────┘
//
// What collectors share lies in packages of its own: fetch and robots get a page politely; structured, calendar and
// posts read events out of what was got; timing, place, markup and identity give dates, zones, addresses, text and keys
// one meaning; candidate makes observations of it all.
package collect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
)

// Source is one outside place to collect from.
type Source struct {
	ID uuid.UUID
	// Type is one of the interface's source types: site, sitemap, siteIndexPage, instagram, facebook, tiktok, twitter.
	Type string
	// URL is set for the types that are pages, Handle for the platforms.
	URL    string
	Handle string
	// Timezone is the IANA zone in which the source means dates that name none. It may be empty.
	Timezone string
}

// Collector reads the pages of one type of sources. It may be used for several sources at once.
type Collector interface {
	// Start gives the pages with which a walk of a source begins, mostly one.
	Start(source Source) []Link
	// Read gets a page, unless it is as it is remembered, and reads it. Something amiss with single events is no
	// failure: see Page.Notes.
	//
	// It fails with one of the errors of this package (errors.Is), or with the context's. [Gone] tells a page that is
	// no more; after [Stops], nothing else of the source can be had now either.
	Read(ctx context.Context, source Source, page Known) (Page, error)
}

// Link is a page of a source: a page of the web, a calendar, a page of an answer of an API.
type Link struct {
	// Address tells it from the other pages of its source, in at most [MaxAddress] bytes. It is stored and shown, and
	// holds no credentials.
	Address string
	// Role is what the collector takes it for, such as "sitemap" or "page". It is the collector's own.
	Role string
	// List: it is read for the pages that it links, in each walk.
	List bool
	// Modified is when it changed last, as the page that links it says, in its words. It may be empty.
	Modified string
	// Lasting: it stays with the source when no list names it any more, until it is gone itself. So it is with posts,
	// of which feeds name the latest only.
	Lasting bool
}

// MaxAddress is how long an address may be, in bytes.
const MaxAddress = 2048

// State is what a collector wants to remember of a page: validators, the digest of a body, a token. It is JSON of at
// most [MaxState] bytes, opaque to all but the collector that made it, which must accept none or a foreign one as
// "nothing is known". It may be lost at any time, which costs requests and nothing else.
type State = json.RawMessage

// MaxState is how long a State may be, in bytes. A longer one is not remembered.
const MaxState = 4 << 10

// Known is a page with what is remembered of it.
type Known struct {
	Link

	// Root: the walk began with it. Without it the source can't be collected.
	Root  bool
	State State
	// ReadAt is when it was read last, or was found to be unchanged; zero for never.
	ReadAt time.Time
	// ReadModified is what Link.Modified was then.
	ReadModified string
	// Shown counts the happenings that it showed then, Until is when the last of their occurrences ends.
	Shown int
	Until time.Time
	// Barren counts how often in a row it was read and showed nothing.
	Barren int
	// AskedAt is when it was last asked for, with success or without.
	AskedAt time.Time
}

// Page is what came of reading a page.
type Page struct {
	// Unchanged: the page is as it was when it was last read. Of the other fields, State, Notes and Requests may be set.
	Unchanged bool
	// Observations hold each key once.
	Observations []Observation
	// Partial: the page may show, or link, more than was read of it. Some notes imply it, see [Notes.Partial].
	Partial bool
	// Links are the pages that it says belong to the source. Of a List, they are all of them: pages that no list names
	// any more are gone.
	Links []Link
	State State
	// Notes tell operators why less was found than the page shows.
	Notes Notes
	// Passed are dates that were read and are no event's. They are for people who try a source, and not recorded.
	Passed []Passed
	// Requests counts what was asked for, robots.txt not included.
	Requests int
}

// Passed is a date in a text that is no event's.
type Passed struct {
	// Address is where the text is shown.
	Address string `json:"address,omitzero"`
	Words   string `json:"words"`
	Why     string `json:"why"`
}

// Observation is one happening as the source shows it now. It is remembered as JSON.
type Observation struct {
	// Key is the evidence that identifies the happening; happening.DeriveID makes the id of it. It begins with its
	// kind, as in "url:https://example.org/e/1", see package identity.
	Key string `json:"key"`
	// Keys holds all evidence strong enough to identify the same happening at another source, Key included if it is. It
	// may be empty.
	Keys []string `json:"keys,omitempty"`
	// Alias is what else identifies it, on this page alone; empty for nothing.
	Alias string `json:"-"`
	// Details are complete: what is absent is not shown by the source.
	Details happening.Details `json:"details"`
	// PublishedAt is when the source first published it, if it says so.
	PublishedAt *time.Time      `json:"publishedAt,omitempty"`
	Source      happening.Block `json:"source"`
	// Standing is how much the page counts where several tell of one happening.
	Standing happening.Standing `json:"standing,omitempty"`
	// Version counts the changes of the happening at its source, as SEQUENCE of iCalendar does. Optional.
	Version int `json:"version,omitzero"`
	// Origins say what gave the fields, in the order of [Fields]. A field of several values has an origin for each.
	Origins []Origin `json:"origins,omitempty"`
}

// Until is when the last occurrence of what the page shows ends; zero if it shows none.
func (p Page) Until() time.Time {
	var until time.Time
	for i := range p.Observations {
		if last := p.Observations[i].Details.Last(); last.After(until) {
			until = last
		}
	}
	return until
}
