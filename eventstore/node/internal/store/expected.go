package store

import (
	"math"
	"strconv"
)

// Expected is a writer's expectation of a stream's last revision. The zero value is no expectation at all and is
// refused, so that forgetting one can't switch the check off.
type Expected struct {
	kind     expectedKind
	revision uint64
}

type expectedKind uint8

const (
	expectUnset expectedKind = iota
	expectAny
	expectNoStream
	expectExists
	expectRevision
)

// Any expects nothing.
func Any() Expected { return Expected{kind: expectAny} }

// NoStream expects a stream that has no readable events: never written or soft-deleted.
func NoStream() Expected { return Expected{kind: expectNoStream} }

// StreamExists expects a stream with events, or at least with metadata.
func StreamExists() Expected { return Expected{kind: expectExists} }

// Revision expects the stream's last event to have this revision. The highest number is how some clients say that there
// is no stream: -1 in their own notation.
func Revision(revision uint64) Expected {
	if revision == math.MaxUint64 {
		return Expected{kind: expectNoStream, revision: revision}
	}
	return Expected{kind: expectRevision, revision: revision}
}

// IsAny reports whether nothing is expected.
func (e Expected) IsAny() bool { return e.kind == expectAny }

// IsNoStream reports whether the stream is expected not to exist.
func (e Expected) IsNoStream() bool { return e.kind == expectNoStream }

// IsStreamExists reports whether the stream is expected to exist.
func (e Expected) IsStreamExists() bool { return e.kind == expectExists }

// Given returns the number that the writer gave; false if the writer gave a name.
func (e Expected) Given() (uint64, bool) {
	return e.revision, e.kind == expectRevision || e.kind == expectNoStream && e.revision == math.MaxUint64
}

// Exact returns the revision expected; false if it isn't one.
func (e Expected) Exact() (uint64, bool) { return e.revision, e.kind == expectRevision }

// Number is the expectation in the protocol's numbering: -2 any, -1 no stream, -4 stream exists.
func (e Expected) Number() int64 {
	switch e.kind {
	case expectNoStream:
		return -1
	case expectExists:
		return -4
	case expectRevision:
		return int64(e.revision) // #nosec G115 -- revisions stay below 2^63
	default:
		return -2
	}
}

func (e Expected) String() string {
	switch e.kind {
	case expectAny:
		return "any"
	case expectNoStream:
		return "no stream"
	case expectExists:
		return "stream exists"
	case expectRevision:
		return strconv.FormatUint(e.revision, 10)
	default:
		return "unset"
	}
}
