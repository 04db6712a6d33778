package copying

import (
	"context"
	"iter"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

const (
	// readAhead is how many events are read while others are being handled.
	readAhead = 2048
	// lookAhead is how many streams of the target are asked about at once.
	lookAhead = 32
)

type step struct {
	entry  esdb.Entry
	stream *stream // of the target; nil where the entry is not to be copied
	err    error
}

// ahead reads a sequence in the background. It ends with the sequence or with the context, which the caller must end.
func ahead(ctx context.Context, steps iter.Seq[step]) iter.Seq[step] {
	read := make(chan step, readAhead)
	go func() {
		defer close(read)
		for s := range steps {
			select {
			case read <- s:
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

// stepsOf is a log as it is.
func stepsOf(entries iter.Seq2[esdb.Entry, error]) iter.Seq[step] {
	return func(yield func(step) bool) {
		for entry, err := range entries {
			if !yield(step{entry: entry, err: err}) {
				return
			}
		}
	}
}

// stream is what is known of a stream of the target. Only who appends may use it, once asked is closed.
type stream struct {
	asked chan struct{} // nil where nothing had to be asked
	err   error         // of asking

	next   eventstore.Revision // of the next event to be appended
	copied bool                // what comes before that may be in the target already
	ended  bool

	metadata eventstore.Revision // the last revision of its metadata, where that is known
	known    bool
}

// streams adds to each entry what the target has of its stream at the beginning of this run, which is asked for in
// advance, the first time that the stream comes.
func (c *copier) streams(ctx context.Context, there begun, entries iter.Seq2[esdb.Entry, error]) iter.Seq[step] {
	return func(yield func(step) bool) {
		known := map[string]*stream{}
		asking := make(chan struct{}, lookAhead)
		for entry, err := range entries {
			s := step{entry: entry, err: err}
			if err == nil && !system(&entry) && entry.Type != eventstore.Filler {
				if s.stream = known[entry.Stream]; s.stream == nil {
					s.stream = c.targets(ctx, there, &entry, asking)
					known[entry.Stream] = s.stream
				}
			}
			if !yield(s) {
				return
			}
		}
	}
}

// targets begins to find out what the target has of the stream that an entry is the first of in this run.
func (c *copier) targets(ctx context.Context, there begun, first *esdb.Entry, asking chan struct{}) *stream {
	s := &stream{metadata: eventstore.NoStream, known: there.fresh}
	last, copied := there.copied[first.Stream]
	switch {
	case copied && last == ended:
		s.ended = true
	case copied:
		s.next, s.copied = last+1, true
	case there.fresh, first.Revision == 0: // nothing, or the append is refused
	default:
		s.asked = make(chan struct{})
		select {
		case asking <- struct{}{}:
		case <-ctx.Done():
			s.err = ctx.Err()
			close(s.asked)
			return s
		}
		name := first.Stream
		go func() {
			defer func() { <-asking; close(s.asked) }()
			s.err = c.outlast(ctx, func() error { return c.ask(ctx, name, s) })
		}()
	}
	return s
}

// ask finds out what the target has of a stream.
func (c *copier) ask(ctx context.Context, name string, s *stream) error {
	last, err := lastRevision(ctx, c.target, name)
	if err != nil {
		return err
	}
	if s.ended = last == ended; s.ended {
		return nil
	}
	s.next = last + 1
	return nil
}
