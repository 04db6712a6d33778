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
	w := writer{
		copier:  c,
		ctx:     ctx,
		there:   there,
		streams: map[string]*stream{},
	}
	err = c.target.AppendInOrder(ctx, c.options.Window, func(yield func(*esdb.Ordered) bool) {
		w.yield = yield
		w.failed = w.copy(&end, head)
	})
	switch {
	case err != nil:
		return end, fmt.Errorf("target: %w", meaning(err))
	case w.failed != nil:
		return end, w.failed
	}
	c.copied(end, end)
	return end, nil
}

// writer gathers consecutive events of one stream, and appends them in the order of all.
type writer struct {
	*copier

	ctx     context.Context
	yield   func(*esdb.Ordered) bool // takes appends; false means that one has failed
	failed  error
	there   begun
	streams map[string]*stream // of the target
	entries []esdb.Entry
	bytes   int
}

// copy reads the source to its end. end is the position that it has reached.
func (w *writer) copy(end *eventstore.Position, head eventstore.Position) error {
	seen := 0
	w.copied(*end, head)
	for entry, err := range w.source.All(w.ctx, *end) {
		if err != nil {
			return fmt.Errorf("source: %w", err)
		}
		if !w.skip(&entry) {
			if err := w.add(&entry); err != nil {
				return fmt.Errorf("target: %w", err)
			}
		}
		*end = entry.Position
		if seen++; seen%reportEvery == 0 {
			w.copied(*end, head)
		}
	}
	return w.flush()
}

// copied reports progress.
func (c *copier) copied(to, head eventstore.Position) {
	c.report(Progress{
		Phase:  PhaseCopy,
		Done:   to.Commit,
		Total:  max(head.Commit, to.Commit),
		Events: c.result.Copied,
	})
}

func (w *writer) add(e *esdb.Entry) error {
	to, err := w.streamOf(e)
	if err != nil {
		return err
	}
	switch {
	case to.ended: // it was copied before, tombstone and all; the comparison will show
		return nil
	case e.Type == tombstoneType:
		to.ended = true
		return w.tombstone(e.Stream)
	case e.Revision < to.next && to.copied:
		return nil
	case e.Revision < to.next:
		return w.has(e)
	case e.Revision > to.next:
		if err := w.fill(e.Stream, to, e.Revision); err != nil {
			return err
		}
	}
	to.next = e.Revision + 1
	e.Metadata = eventstore.CarriedMetadata(&e.Recorded)
	size := len(e.Data) + len(e.Metadata) + 2*len(e.Type)
	if n := len(w.entries); n > 0 && (w.entries[0].Stream != e.Stream || n == maxBatch || w.bytes+size > maxBatchBytes) {
		if err := w.flush(); err != nil {
			return err
		}
	}
	w.entries, w.bytes = append(w.entries, *e), w.bytes+size
	return nil
}

// has makes sure that the target has an event. Appends that an interrupted run has sent may be carried out while this
// one begins.
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
	err := w.append(&esdb.Ordered{
		Stream:   w.entries[0].Stream,
		Expected: w.entries[0].Revision - 1,
		Entries:  w.entries,
		Appended: func() { w.result.Copied += count },
	})
	w.entries, w.bytes = w.entries[:0], 0
	return err
}

var errStopped = errors.New("an earlier append has failed")

// append hands an append over, or waits for all before if it is nil.
func (w *writer) append(next *esdb.Ordered) error {
	if !w.yield(next) {
		return errStopped
	}
	return nil
}

// meaning returns the meaning of a refused append.
func meaning(err error) error {
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
	if err := w.append(nil); err != nil {
		return err
	}
	return w.target.Tombstone(w.ctx, stream)
}

// fill makes the target's stream end just before a revision, hiding what it is filled with.
func (w *writer) fill(stream string, to *stream, before eventstore.Revision) error {
	if err := w.flush(); err != nil {
		return err
	}
	if !to.known {
		var err error
		if to.metadata, err = w.target.LastRevision(w.ctx, "$$"+stream); err != nil {
			return err
		}
	}
	if err := w.append(&esdb.Ordered{
		Stream:   "$$" + stream,
		Expected: to.metadata,
		Entries:  []esdb.Entry{hiding(stream, before)},
	}); err != nil {
		return err
	}
	to.metadata, to.known = to.metadata+1, true
	for to.next < before {
		list := fillers(stream, to.next, before)
		count := uint64(len(list))
		if err := w.append(&esdb.Ordered{
			Stream:   stream,
			Expected: to.next - 1,
			Entries:  list,
			Appended: func() { w.result.Filled += count },
		}); err != nil {
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

// stream is the known state of a stream of the target.
type stream struct {
	next   eventstore.Revision // of the next event to be appended
	copied bool                // earlier events may be in the target already
	ended  bool

	metadata eventstore.Revision // the last revision of its metadata, if that is known
	known    bool
}

// streamOf returns what the target has of the stream of an entry, as of the first one of that stream in this run.
func (w *writer) streamOf(e *esdb.Entry) (*stream, error) {
	if s := w.streams[e.Stream]; s != nil {
		return s, nil
	}
	s := &stream{metadata: eventstore.NoStream, known: w.there.fresh}
	last, copied := w.there.copied[e.Stream]
	switch {
	case copied && last == ended:
		s.ended = true
	case copied:
		s.next, s.copied = last+1, true
	case w.there.fresh, e.Revision == 0: // nothing, or the append is refused
	default:
		if err := w.ask(e.Stream, s); err != nil {
			return nil, err
		}
	}
	w.streams[e.Stream] = s
	return s, nil
}

// ask finds out what the target has of a stream.
func (w *writer) ask(name string, s *stream) error {
	last, err := lastRevision(w.ctx, w.target, name)
	if err != nil {
		return err
	}
	if s.ended = last == ended; s.ended {
		return nil
	}
	s.next = last + 1
	return nil
}
