package copying

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// ErrForeign: the target holds an event that is not the source's, so it can't become a copy of it.
var ErrForeign = errors.New("the target holds other events than the source")

// Phases of a copy.
const (
	PhaseCopy     = "copying"
	PhaseCompare  = "comparing"
	PhaseDescribe = "setting metadata"
)

// Progress is the progress of a phase. Done and Total are bytes of the source's log or something like it, and streams
// while metadata is set.
type Progress struct {
	Phase       string
	Done, Total uint64
	Events      uint64 // copied or compared by this run; streams while metadata is set
}

// Result is the outcome of a copy.
type Result struct {
	Resumed  bool   `json:"resumed"`  // the target held a part already
	Copied   uint64 `json:"copied"`   // events appended by this run
	Filled   uint64 `json:"filled"`   // revisions that the source no longer has, filled with hidden events
	Compared uint64 `json:"compared"` // events found equal on both sides
	Streams  uint64 `json:"streams"`  // streams found equal on both sides, by count, hash and last revision
	Gone     uint64 `json:"gone"`     // events of the target that the source has scavenged since they were copied
	Metadata uint64 `json:"metadata"` // streams whose metadata was written by this run
	// SHA-256 over the names, counts, hashes and last revisions of all streams, in hexadecimal
	Digest  string    `json:"digest"`
	LeftOut []LeftOut `json:"leftOut"` // streams that are not copied, by name: the store's own
}

// LeftOut is a stream whose name begins with "$", and how many events of it were seen and not copied.
type LeftOut struct {
	Stream string `json:"stream"`
	Events uint64 `json:"events"`
}

// Options of a copy.
type Options struct {
	// CopyOnly leaves out the comparison, the metadata and the last revisions of unreadable streams, which need a source
	// at rest: for a first run beside a source in use.
	CopyOnly bool
	// Report hears how far the copy is; nil is allowed.
	Report func(Progress)
	// Streams hears what each stream holds, by name, once all were found equal; nil is allowed.
	Streams func([]Stream)
	// Window is how many appends are on their way at once; 0 means as many as one connection allows.
	Window int
	// Patience is how long a store that answered before may be gone, or be without a leader; 0 means two minutes.
	Patience time.Duration
}

// Copy makes the target a copy of the source, and compares the two. Nothing else may write to the target meanwhile.
// Errors: ErrForeign, *Difference, and those of the stores, after which it can be called again and goes on.
func Copy(ctx context.Context, source, target *esdb.Store, o Options) (Result, error) {
	patience := cmp.Or(o.Patience, 2*time.Minute)
	c := &copier{
		source:   source.Patient(patience),
		target:   target.Patient(patience),
		options:  o,
		report:   o.Report,
		leftOut:  map[string]uint64{},
		readable: map[string]eventstore.Revision{},
	}
	if c.report == nil {
		c.report = func(Progress) {}
	}
	// An unreachable store is reported at once; the copy waits for a store that becomes unreachable later.
	if _, err := source.Head(ctx); err != nil {
		return c.result, fmt.Errorf("source: %w", err)
	}
	if _, err := target.Head(ctx); err != nil {
		return c.result, fmt.Errorf("target: %w", err)
	}
	err := c.copy(ctx)
	for _, stream := range slices.Sorted(maps.Keys(c.leftOut)) {
		c.result.LeftOut = append(c.result.LeftOut, LeftOut{Stream: stream, Events: c.leftOut[stream]})
	}
	return c.result, err
}

type copier struct {
	source, target *esdb.Store
	options        Options
	report         func(Progress)
	result         Result
	leftOut        map[string]uint64
	tallies        *tallies
	readable       map[string]eventstore.Revision // by streams of the source that have lost events: the first that is left
}

func (c *copier) copy(ctx context.Context) error {
	there, err := c.resume(ctx)
	if err != nil {
		return err
	}
	end, err := c.events(ctx, there)
	if err != nil || c.options.CopyOnly {
		return err
	}
	described, err := c.compare(ctx, end)
	if err != nil {
		return err
	}
	if err := c.describeAll(ctx, described); err != nil {
		return err
	}
	streams, digest, err := c.tallies.compare()
	if err != nil {
		return err
	}
	c.result.Streams, c.result.Digest = uint64(len(streams)), digest
	if c.options.Streams != nil {
		c.options.Streams(streams)
	}
	return nil
}

const (
	// maxBatch and maxBatchBytes keep an append below the 1 MiB that servers take.
	maxBatch      = 500
	maxBatchBytes = 512 << 10
	reportEvery   = 256 // events
	tombstoneType = "$streamDeleted"
	metadataType  = "$metadata"
)

// system reports whether an entry is the store's own business.
func system(e *esdb.Entry) bool { return strings.HasPrefix(e.Stream, "$") }

// describes names the stream whose metadata an entry is, if it is a user's.
func describes(e *esdb.Entry) (string, bool) {
	name, ok := strings.CutPrefix(e.Stream, "$$")
	return name, ok && !strings.HasPrefix(name, "$")
}

// skip counts entries that are not copied, and reports whether the entry is one: the system's streams, metadata, which
// is copied at the end, and fillers in the places of events that the source lost when it was copied itself.
func (c *copier) skip(e *esdb.Entry) bool {
	if !system(e) {
		return e.Type == eventstore.Filler
	}
	if _, described := describes(e); !described {
		c.leftOut[e.Stream]++
	}
	return true
}
