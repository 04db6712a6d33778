package copying

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// ErrForeign: the target holds an event that is not the source's, so it can't become a copy of it.
var ErrForeign = errors.New("the target holds other events than the source")

// Phases of a copy.
const (
	PhaseCopy    = "copying"
	PhaseCompare = "comparing"
)

// Progress says how far a phase is, in bytes of the source's log or something like it.
type Progress struct {
	Phase       string
	Done, Total uint64
}

// Result is what was done.
type Result struct {
	Resumed  bool   `json:"resumed"`  // the target held a part already
	Copied   uint64 `json:"copied"`   // events appended by this run
	Filled   uint64 `json:"filled"`   // revisions that the source no longer has, filled with hidden events
	Compared uint64 `json:"compared"` // events found equal on both sides
	Streams  uint64 `json:"streams"`  // streams found equal on both sides, by count and hash
	Gone     uint64 `json:"gone"`     // events of the target that the source has scavenged since they were copied
	Metadata uint64 `json:"metadata"` // streams whose metadata was written by this run
	Digest   string `json:"digest"`   // SHA-256 over the names, counts and hashes of all streams, in hexadecimal
}

// Options of a copy.
type Options struct {
	// CopyOnly leaves out the comparison and the metadata, which want a source that rests: for a first run beside a
	// source in use.
	CopyOnly bool
	// Report hears how far the copy is; nil is allowed.
	Report func(Progress)
	// Streams hears what each stream holds, by name, once all were found equal; nil is allowed.
	Streams func([]Stream)
}

// Copy makes the target a copy of the source, and compares the two. Nothing else may write to the target meanwhile.
// Errors: ErrForeign, *Difference, and those of the stores, after which it can be called again and goes on.
func Copy(ctx context.Context, source, target *esdb.Store, o Options) (Result, error) {
	c := &copier{source: source, target: target, report: o.Report, streams: o.Streams}
	if c.report == nil {
		c.report = func(Progress) {}
	}
	after, err := c.resume(ctx)
	if err != nil {
		return c.result, err
	}
	end, err := c.events(ctx, after)
	if err != nil || o.CopyOnly {
		return c.result, err
	}
	described, err := c.compare(ctx, end)
	if err != nil {
		return c.result, err
	}
	return c.result, c.metadata(ctx, described)
}

type copier struct {
	source, target *esdb.Store
	report         func(Progress)
	streams        func([]Stream)
	result         Result
	tallies        *tallies
}

const (
	// maxBatch and maxBatchBytes keep an append below the 1 MiB that servers take.
	maxBatch      = 500
	maxBatchBytes = 512 << 10
	reportEvery   = 256 // events
	tombstoneType = "$streamDeleted"
	metadataType  = "$metadata"
)

// system says whether an entry is the store's own business.
func system(e *esdb.Entry) bool { return strings.HasPrefix(e.Stream, "$") }

// resume finds the position in the source after which the target has nothing: that of the target's last event.
func (c *copier) resume(ctx context.Context) (eventstore.Position, error) {
	for entry, err := range c.target.Backwards(ctx) {
		if err != nil {
			return eventstore.Start, fmt.Errorf("target: %w", err)
		}
		if system(&entry) || entry.Type == fillerType {
			continue
		}
		c.result.Resumed = true
		at, known, err := c.find(ctx, &entry)
		switch {
		case err != nil:
			return eventstore.Start, err
		case known == same:
			return at, nil
		case known == foreign:
			return eventstore.Start, fmt.Errorf("%w: event %d of stream %s", ErrForeign, entry.Revision, entry.Stream)
		}
	}
	return eventstore.Start, nil
}

// knowledge is what a source says about an event of the target.
type knowledge int

const (
	same    knowledge = iota // it has it
	gone                     // it may have had it: its stream was deleted or truncated
	foreign                  // it never had it
)

// find looks an event of the target up in the source.
func (c *copier) find(ctx context.Context, e *esdb.Entry) (eventstore.Position, knowledge, error) {
	for recorded, err := range c.source.Read(ctx, e.Stream, e.Revision) {
		switch {
		case errors.Is(err, eventstore.ErrStreamDeleted):
			return eventstore.Start, gone, nil
		case err != nil:
			return eventstore.Start, foreign, fmt.Errorf("source: %w", err)
		case recorded.Revision != e.Revision:
			return eventstore.Start, gone, nil
		case recorded.ID != e.ID:
			return eventstore.Start, foreign, nil
		}
		return recorded.Position, same, nil
	}
	_, described, err := c.source.Last(ctx, "$$"+e.Stream)
	switch {
	case err != nil:
		return eventstore.Start, foreign, fmt.Errorf("source: %w", err)
	case described: // by which it may have lost its events
		return eventstore.Start, gone, nil
	}
	return eventstore.Start, foreign, nil
}

// events copies what the source has after a position, to its present end, and returns that.
func (c *copier) events(ctx context.Context, after eventstore.Position) (end eventstore.Position, err error) {
	head, err := c.source.Head(ctx)
	if err != nil {
		return after, fmt.Errorf("source: %w", err)
	}
	b := batch{copier: c}
	seen := 0
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	for entry, err := range ahead(ctx, c.source.All(ctx, after)) {
		if err != nil {
			return after, fmt.Errorf("source: %w", err)
		}
		if err := b.add(ctx, entry); err != nil {
			return after, err
		}
		after = entry.Position
		if seen++; seen%reportEvery == 0 {
			c.report(Progress{Phase: PhaseCopy, Done: after.Commit, Total: max(head.Commit, after.Commit)})
		}
	}
	if err := b.flush(ctx); err != nil {
		return after, err
	}
	c.report(Progress{Phase: PhaseCopy, Done: after.Commit, Total: after.Commit})
	return after, nil
}

// batch gathers consecutive events of one stream.
type batch struct {
	*copier

	entries []esdb.Entry
	bytes   int
}

func (b *batch) add(ctx context.Context, e esdb.Entry) error {
	if system(&e) {
		return nil
	}
	e.Metadata = withOriginalTime(&e)
	size := len(e.Data) + len(e.Metadata) + 2*len(e.Type)
	if n := len(b.entries); n > 0 {
		last := &b.entries[n-1]
		if last.Stream != e.Stream || last.Revision+1 != e.Revision || n == maxBatch || b.bytes+size > maxBatchBytes {
			if err := b.flush(ctx); err != nil {
				return err
			}
		}
	}
	if e.Type == tombstoneType {
		return b.target.Tombstone(ctx, e.Stream)
	}
	b.entries, b.bytes = append(b.entries, e), b.bytes+size
	return nil
}

// flush appends the batch at its own revisions.
func (b *batch) flush(ctx context.Context) error {
	if len(b.entries) == 0 {
		return nil
	}
	first, last := &b.entries[0], &b.entries[len(b.entries)-1]
	appended, err := b.target.AppendEntries(ctx, first.Stream, first.Revision-1, b.entries)
	if errors.Is(err, eventstore.ErrWrongRevision) {
		if err = b.fill(ctx, first.Stream, first.Revision); err == nil {
			appended, err = b.target.AppendEntries(ctx, first.Stream, first.Revision-1, b.entries)
		}
	}
	switch {
	case errors.Is(err, eventstore.ErrWrongRevision):
		return fmt.Errorf("%w: stream %s at revision %d", ErrForeign, first.Stream, first.Revision)
	case errors.Is(err, eventstore.ErrStreamDeleted): // it was copied before, tombstone and all; comparing will tell
	case err != nil:
		return fmt.Errorf("copy events %d to %d of stream %s: %w", first.Revision, last.Revision, first.Stream, err)
	case appended.Revision != last.Revision:
		return fmt.Errorf("%w: stream %s went to revision %d instead of %d", ErrForeign, first.Stream, appended.Revision, last.Revision)
	}
	b.result.Copied += uint64(len(b.entries))
	b.entries, b.bytes = b.entries[:0], 0
	return nil
}

// fillerType is the type of events that stand for those which the source no longer has, so that the others get their
// revisions. They are hidden by $tb.
const fillerType = "carillon.filler.v1"

// fill makes the target's stream end just before a revision, hiding what it is filled with.
func (b *batch) fill(ctx context.Context, stream string, before eventstore.Revision) error {
	last, ok, err := b.target.Last(ctx, stream)
	if err != nil {
		return fmt.Errorf("target: %w", err)
	}
	next := eventstore.Revision(0)
	if ok {
		next = last.Revision + 1
	}
	if next >= before {
		return fmt.Errorf("%w: stream %s has %d events where the source has %d", ErrForeign, stream, next, before)
	}
	if err := b.hide(ctx, stream, before); err != nil {
		return err
	}
	for next < before {
		fillers := make([]esdb.Entry, min(before-next, maxBatch))
		for i := range fillers {
			revision := next + eventstore.Revision(i)
			id := uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, "%s#%d", stream, revision))
			fillers[i] = esdb.Entry{Recorded: eventstore.Recorded{ID: id, Type: fillerType, Data: []byte("{}")}, JSON: true}
		}
		if _, err := b.target.AppendEntries(ctx, stream, next-1, fillers); err != nil {
			return fmt.Errorf("fill stream %s: %w", stream, err)
		}
		next += eventstore.Revision(len(fillers))
		b.result.Filled += uint64(len(fillers))
	}
	return nil
}
