package copying

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// events copies what the source has after a position, to its present end, and returns that.
func (c *copier) events(ctx context.Context, there begun) (end eventstore.Position, err error) {
	end = there.after
	head, err := c.source.Head(ctx)
	if err != nil {
		return end, fmt.Errorf("source: %w", err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	appends, err := c.target.Ordered(ctx, c.options.Window, c.options.Patience)
	if err != nil {
		return end, fmt.Errorf("target: %w", err)
	}
	defer appends.Close()
	w := writer{
		copier:  c,
		ctx:     ctx,
		appends: appends,
		there:   there,
		streams: map[string]*stream{},
	}
	seen, report := 0, func(total uint64) {
		c.report(Progress{Phase: PhaseCopy, Done: end.Commit, Total: max(total, end.Commit), Events: c.result.Copied})
	}
	report(head.Commit)
	for s := range ahead(ctx, c.log(ctx, c.source, end)) {
		if s.err != nil {
			return end, fmt.Errorf("source: %w", s.err)
		}
		if !c.skip(&s.entry) {
			if err := w.add(&s.entry); err != nil {
				return end, fmt.Errorf("target: %w", err)
			}
		}
		end = s.entry.Position
		if seen++; seen%reportEvery == 0 {
			report(head.Commit)
		}
	}
	if err := w.flush(); err != nil {
		return end, fmt.Errorf("target: %w", err)
	}
	if err := w.settle(); err != nil {
		return end, fmt.Errorf("target: %w", err)
	}
	report(end.Commit)
	return end, nil
}

// writer gathers consecutive events of one stream, and appends them in the order of all.
type writer struct {
	*copier

	ctx     context.Context
	appends *esdb.Ordered
	there   begun
	streams map[string]*stream // of the target
	entries []esdb.Entry
	bytes   int
}

func (w *writer) add(e *esdb.Entry) error {
	to, err := w.streamOf(e)
	if err != nil {
		return err
	}
	switch {
	case to.ended: // it was copied before, tombstone and all; comparing will tell
		return nil
	case e.Type == tombstoneType:
		to.ended = true
		return w.tombstone(e.Stream)
	case e.Revision < to.next && to.copied:
		return nil
	case e.Revision < to.next:
		return w.outlast(w.ctx, func() error { return w.has(e) })
	case e.Revision > to.next:
		if err := w.fill(e.Stream, to, e.Revision); err != nil {
			return err
		}
	}
	to.next = e.Revision + 1
	e.Metadata = CarriedMetadata(e)
	size := len(e.Data) + len(e.Metadata) + 2*len(e.Type)
	if n := len(w.entries); n > 0 && (w.entries[0].Stream != e.Stream || n == maxBatch || w.bytes+size > maxBatchBytes) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.entries, w.bytes = append(w.entries, *e), w.bytes+size
	return nil
}

// has makes sure that the target has an event. What a run before had sent when it was cut off may be carried out while
// this one begins.
func (w *writer) has(e *esdb.Entry) error {
	for recorded, err := range w.target.Read(w.ctx, e.Stream, e.Revision) {
		if err != nil || recorded.ID == e.ID {
			return err
		}
		break
	}
	return fmt.Errorf("%w: event %d of stream %s", ErrForeign, e.Revision, e.Stream)
}

// flush appends what was gathered, at its own revisions.
func (w *writer) flush() error {
	if len(w.entries) == 0 {
		return nil
	}
	count := uint64(len(w.entries))
	err := w.append(w.entries[0].Stream, w.entries[0].Revision-1, w.entries, func() { w.result.Copied += count })
	w.entries, w.bytes = w.entries[:0], 0
	return err
}

func (w *writer) append(stream string, expected eventstore.Revision, entries []esdb.Entry, appended func()) error {
	return told(w.appends.Append(stream, expected, entries, appended))
}

// settle waits until all is appended.
func (w *writer) settle() error { return told(w.appends.Flush()) }

// told says what it means that an append was refused.
func told(err error) error {
	if errors.Is(err, eventstore.ErrWrongRevision) || errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("%w: %w", ErrForeign, err)
	}
	return err
}

// tombstone ends a stream, after all that was before it.
func (w *writer) tombstone(stream string) error {
	if err := w.flush(); err != nil {
		return err
	}
	if err := w.settle(); err != nil {
		return err
	}
	return w.outlast(w.ctx, func() error { return w.target.Tombstone(w.ctx, stream) })
}

// fill makes the target's stream end just before a revision, hiding what it is filled with.
func (w *writer) fill(stream string, to *stream, before eventstore.Revision) error {
	if err := w.flush(); err != nil {
		return err
	}
	if !to.known {
		if err := w.outlast(w.ctx, func() (err error) {
			to.metadata, err = w.target.LastRevision(w.ctx, "$$"+stream)
			return err
		}); err != nil {
			return err
		}
	}
	if err := w.append("$$"+stream, to.metadata, []esdb.Entry{hiding(stream, before)}, func() {}); err != nil {
		return err
	}
	to.metadata, to.known = to.metadata+1, true
	for to.next < before {
		list := fillers(stream, to.next, before)
		count := uint64(len(list))
		if err := w.append(stream, to.next-1, list, func() { w.result.Filled += count }); err != nil {
			return err
		}
		to.next += eventstore.Revision(len(list))
	}
	return nil
}

// maxFillers is how many fillers are appended at once. They are small, and no server limits their number.
const maxFillers = 4096

// fillers are events that stand for those which the source no longer has, so that the others get their revisions.
func fillers(stream string, from, before eventstore.Revision) []esdb.Entry {
	list := make([]esdb.Entry, min(before-from, maxFillers))
	for i := range list {
		id := derived("%s#%d", stream, from+eventstore.Revision(i))
		filler := eventstore.Recorded{ID: id, Type: eventstore.Filler, Data: []byte("{}")}
		list[i] = esdb.Entry{Recorded: filler, JSON: true}
	}
	return list
}

// derived makes the id of an event that only a copy has, so that appending it again adds nothing.
func derived(format string, parts ...any) uuid.UUID {
	return uuid.NewSHA1(uuid.NameSpaceURL, fmt.Appendf(nil, format, parts...))
}
