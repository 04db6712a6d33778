// Package collect defines how happenings are collected from a source.
//
// Each source type is a package in sources: it implements [Collector], returns the first pages of a walk, and reads one
// page after the other. A page shows happenings and links further pages; [Walk] visits them until none is ahead. A
// collector has no state and changes nothing: the caller records each page before the next one.
//
//	Start ──▶ links ──▶ frontier ──next──▶ Read: fetch, read (structured, …) ──▶ page: observations, links
//	                        ▲                                                          │
//	                        └───────────────────────── record ◀────────────────────────┘
//
// Below this package, imports point from left to right:
//
//	sources ──▶ crawl    which pages and how politely: fetch, robots, links, linkfile, frontier
//	        ╰─▶ extract  what a page shows: structured, calendar, posts read events; timing, recurrence, place and
//	                     markup interpret dates, addresses and text; candidate makes observations of them
//	match                whether two happenings are the same
//	  ╰─▶ all but match import identity, the keys of happenings, and budget, the bound on a page's cost
package collect

import (
	"context"
	"encoding/json"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
)

// Source is one outside place to collect from.
type Source struct {
	ID uuid.UUID
	// Type is one of the interface's source types: site, sitemap, siteIndexPage, instagram, facebook, tiktok, twitter.
	Type string
	// URL is set for types of pages, Handle for platforms.
	URL    string
	Handle string
	// Timezone is the IANA zone of the source's dates without one. Optional.
	Timezone string
	// Settings are the operators' for its pages.
	Settings source.Settings
}

// Collector reads the pages of one type of sources. It is safe for concurrent use.
type Collector interface {
	// Start returns the first pages of a walk, mostly one.
	Start(s Source) []Link
	// Read fetches a page, unless it is unchanged, and reads it. Errors in single events are not failures: see
	// Page.Notes.
	//
	// It fails with one of the errors of this package (errors.Is), or with the context's. After [Gone], the page no
	// longer exists; after [Stops], nothing else of the source is available either.
	Read(ctx context.Context, s Source, page Known) (Page, error)
}

// Link is a page of a source: a web page, a calendar, a page of an API's answer.
type Link struct {
	// Address identifies the page in its source, in at most [MaxAddress] bytes. It is stored and shown, and contains no
	// credentials.
	Address string
	// Role is the collector's own name for the kind of the page, such as "sitemap" or "page".
	Role string
	// List marks a page that is read in each walk for its links.
	List bool
	// Modified is the time of the last change in the words of the linking page. Optional.
	Modified string
	// Lasting marks a page that stays with the source when no list names it any more, until it is gone itself. Posts are
	// such pages, because feeds name the latest only.
	Lasting bool
}

// MaxAddress limits an address, in bytes.
const MaxAddress = 2048

// State is a collector's own state of a page: validators, the digest of a body, a token. It is JSON of at most
// [MaxState] bytes, opaque to all others. The collector must treat a missing or foreign state as unknown. It may be
// lost at any time, which costs only requests.
type State = json.RawMessage

// MaxState limits a State, in bytes. A longer one is not stored.
const MaxState = 4 << 10

// Known is a page with its stored state.
type Known struct {
	Link

	// Root marks the first page of a walk. The source can't be collected without it.
	Root  bool
	State State
	// ReadAt is the time of the last reading, or of the last check without a change; zero for never.
	ReadAt time.Time
	// ReadModified is the Link.Modified of that time.
	ReadModified string
	// Shown counts the happenings of that time, Until is the end of the last of their occurrences.
	Shown int
	Until time.Time
	// Barren counts the readings in a row without happenings.
	Barren int
	// AskedAt is the time of the last request, successful or not.
	AskedAt time.Time
}

// Page is the result of reading a page.
type Page struct {
	// Unchanged reports that the page has not changed since the last reading. Of the other fields, State, Notes and
	// Requests may be set.
	Unchanged bool
	// Observations have distinct keys.
	Observations []Observation
	// Partial reports that the page may show or link more than was read. Some notes imply it, see [Notes.Partial].
	Partial bool
	// Links are the pages of the source that it links. Those of a List are complete: pages that no list names any more
	// are gone.
	Links []Link
	State State
	// Notes explain to operators why less was found than the page shows.
	Notes Notes
	// Passed are dates that belong to no event. They are for trials, and not recorded.
	Passed []Passed
	// Requests counts the requests, without those for robots.txt.
	Requests int
}

// Passed is a date in a text that belongs to no event.
type Passed struct {
	// Address is the address of the text.
	Address string `json:"address,omitzero"`
	Words   string `json:"words"`
	Why     string `json:"why"`
}

// Observation is one happening as the source shows it now. It is stored as JSON.
type Observation struct {
	// Key is the evidence of the happening's identity, from which happening.DeriveID derives its id. It begins with its
	// kind, such as "url:https://example.org/e/1", see package identity.
	Key string `json:"key"`
	// Keys has all evidence strong enough to identify the happening at another source, including Key if that is strong.
	// Optional.
	Keys []string `json:"keys,omitempty"`
	// Alias identifies it on this page too. Optional.
	Alias string `json:"-"`
	// Versions are the keys of its page in all languages. Optional.
	Versions []string `json:"-"`
	// Details are complete: the source does not show what is missing.
	Details happening.Details `json:"details"`
	// PublishedAt is when the source first published it. Optional.
	PublishedAt *time.Time      `json:"publishedAt,omitempty"`
	Source      happening.Block `json:"source"`
	// Standing is the precedence of the page among those of one happening.
	Standing happening.Standing `json:"standing,omitempty"`
	// Version counts the changes of the happening at its source, as SEQUENCE of iCalendar does. Optional.
	Version int `json:"version,omitzero"`
	// Origins are the origins of the fields, in the order of [Fields]. A field of several values has an origin for each.
	Origins []Origin `json:"origins,omitempty"`
}

// Until returns the end of the last occurrence on the page; zero if there is none.
func (p Page) Until() time.Time {
	var until time.Time
	for i := range p.Observations {
		if last := p.Observations[i].Details.Last(); last.After(until) {
			until = last
		}
	}
	return until
}
