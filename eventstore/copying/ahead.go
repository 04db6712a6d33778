package copying

import (
	"context"
	"iter"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// readAhead is how many events are read while others are being handled.
const readAhead = 2048

type step struct {
	entry esdb.Entry
	err   error
}

// ahead reads a log in the background. It ends with the log or with the context, which the caller must end.
func ahead(ctx context.Context, entries iter.Seq2[esdb.Entry, error]) iter.Seq[step] {
	read := make(chan step, readAhead)
	go func() {
		defer close(read)
		for entry, err := range entries {
			select {
			case read <- step{entry: entry, err: err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(yield func(step) bool) {
		for s := range read {
			if !yield(s) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(step{err: err})
		}
	}
}

// stream is what is known of a stream of the target.
type stream struct {
	next   eventstore.Revision // of the next event to be appended
	copied bool                // what comes before that may be in the target already
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
		if err := w.outlast(w.ctx, func() error { return w.ask(e.Stream, s) }); err != nil {
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
