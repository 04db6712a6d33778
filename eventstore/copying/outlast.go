package copying

import (
	"context"
	"errors"
	"iter"
	"time"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

const tryAgain = 250 * time.Millisecond

// outlast makes a call again while a store is gone for a while, as a cluster is that elects a leader. The call must be one
// that can be made twice.
func (c *copier) outlast(ctx context.Context, call func() error) error {
	for began := time.Now(); ; {
		err := call()
		if !c.retry(ctx, began, err) {
			return err
		}
	}
}

// retry waits for a moment, and reports whether what failed is worth another try.
func (c *copier) retry(ctx context.Context, began time.Time, err error) bool {
	if !errors.Is(err, eventstore.ErrUnavailable) || time.Since(began) > c.options.Patience {
		return false
	}
	timer := time.NewTimer(tryAgain)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// log is a store's log after a position. It goes on where it was when the store had been gone.
func (c *copier) log(ctx context.Context, store *esdb.Store, after eventstore.Position) iter.Seq2[esdb.Entry, error] {
	return c.lasting(ctx, func() iter.Seq2[esdb.Entry, error] { return store.All(ctx, after) },
		func(entry *esdb.Entry) { after = entry.Position })
}

// backwards is a store's log from its end.
func (c *copier) backwards(ctx context.Context, store *esdb.Store) iter.Seq2[esdb.Entry, error] {
	var before eventstore.Position
	return c.lasting(ctx, func() iter.Seq2[esdb.Entry, error] { return store.Backwards(ctx, before) },
		func(entry *esdb.Entry) { before = entry.Position })
}

func (c *copier) lasting(
	ctx context.Context, begin func() iter.Seq2[esdb.Entry, error], passed func(*esdb.Entry),
) iter.Seq2[esdb.Entry, error] {
	return func(yield func(esdb.Entry, error) bool) {
		for came := time.Now(); ; {
			var failure error
			for entry, err := range begin() {
				if failure = err; err != nil {
					break
				}
				passed(&entry)
				if !yield(entry, nil) {
					return
				}
				came = time.Now()
			}
			switch {
			case failure == nil:
				return
			case !c.retry(ctx, came, failure):
				yield(esdb.Entry{}, failure)
				return
			}
		}
	}
}
