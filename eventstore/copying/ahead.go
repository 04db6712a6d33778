package copying

import (
	"context"
	"iter"

	"carillon/eventstore/esdb"
)

// readAhead is how many events are read while others are being handled.
const readAhead = 2048

type step struct {
	entry esdb.Entry
	err   error
}

// ahead reads a sequence in the background. It ends with the sequence or with the context, which the caller must end.
func ahead(ctx context.Context, entries iter.Seq2[esdb.Entry, error]) iter.Seq2[esdb.Entry, error] {
	steps := make(chan step, readAhead)
	go func() {
		defer close(steps)
		for entry, err := range entries {
			select {
			case steps <- step{entry, err}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return func(yield func(esdb.Entry, error) bool) {
		for s := range steps {
			if !yield(s.entry, s.err) {
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(esdb.Entry{}, err)
		}
	}
}
