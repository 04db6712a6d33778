// Package collect says what it is to collect happenings from a source.
//
// Each source type is a package below this one that implements [Collector]: given a source and the cursor that its last
// collection left behind, it yields what it observed. A collector changes nothing and decides nothing about what is
// known already; whoever calls it turns observations into commands.
//
//	source, cursor ──▶ fetch ──▶ read (structured, …) ──▶ observations, next cursor
//
// What collectors share lies in packages of its own: fetch and robots get a page politely; structured reads events out
// of markup; timing, place, markup and identity give dates, zones, addresses, text and keys one meaning.
package collect

import (
	"context"
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

// Cursor is where a collection left off: validators, page tokens, whatever the collector needs to go on. It is JSON,
// opaque to everyone but the collector that made it, which must accept an empty or a foreign one as "from the start".
type Cursor []byte

// Collector yields what a source shows. It may be used for several sources at once.
type Collector interface {
	// Collect fails with one of the errors of this package (errors.Is), or with the context's. Something amiss with
	// single events is no failure: see Result.Notes.
	Collect(ctx context.Context, source Source, cursor Cursor) (Result, error)
}

// Result is what one collection found.
type Result struct {
	// Observations hold each key once.
	Observations []Observation
	// Cursor is for the next collection. It is set even when nothing was modified.
	Cursor Cursor
	// NotModified says that the source is as it was, so Observations is empty and says nothing about what is still
	// there.
	NotModified bool
	// Pages counts the pages that were fetched, robots.txt not among them.
	Pages int
	// Notes tell operators why less was found than the source shows.
	Notes []Note
}

// Observation is one happening as the source shows it now.
type Observation struct {
	// Key is the evidence that identifies the happening; happening.DeriveID makes the id of it. It begins with its
	// kind, as in "url:https://example.org/e/1", see package identity.
	Key string
	// Keys holds all evidence strong enough to identify the same happening at another source, Key included if it is. It
	// may be empty.
	Keys []string
	// Details are complete: what is absent is not shown by the source.
	Details happening.Details
	// PublishedAt is when the source first published it, if it says so.
	PublishedAt *time.Time
	Source      happening.Block
	// Origins say what gave the fields, in the order of [Fields]. A field of several values has an origin for each.
	Origins []Origin
}
