package nodetest

import (
	"context"
	"fmt"
	"iter"
	"sync"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Replaceable is a store that becomes another one while it is in use, as when a server is restored from a backup.
type Replaceable struct {
	mu    sync.Mutex
	store *esdb.Store
	gone  chan struct{} // closed when the store is replaced
}

var _ eventstore.Store = (*Replaceable)(nil)

// NewReplaceable returns a store that is the given one at first.
func NewReplaceable(store *esdb.Store) *Replaceable {
	return &Replaceable{store: store, gone: make(chan struct{})}
}

// Replace puts another store in its place, and breaks all subscriptions.
func (r *Replaceable) Replace(store *esdb.Store) {
	r.mu.Lock()
	defer r.mu.Unlock()
	close(r.gone)
	r.store, r.gone = store, make(chan struct{})
}

func (r *Replaceable) present() (*esdb.Store, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.store, r.gone
}

// Append implements eventstore.Store.
func (r *Replaceable) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	store, _ := r.present()
	return store.Append(ctx, stream, expected, events)
}

// Read implements eventstore.Store.
func (r *Replaceable) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	store, _ := r.present()
	return store.Read(ctx, stream, from)
}

// Head implements eventstore.Store.
func (r *Replaceable) Head(ctx context.Context) (eventstore.Position, error) {
	store, _ := r.present()
	return store.Head(ctx)
}

// Identity returns that of the present store.
func (r *Replaceable) Identity(ctx context.Context) (string, error) {
	store, _ := r.present()
	return store.Identity(ctx)
}

// Subscribe implements eventstore.Store.
func (r *Replaceable) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	return func(yield func(eventstore.Message, error) bool) {
		store, gone := r.present()
		during, cancel := context.WithCancel(ctx)
		defer cancel()
		go func() {
			select {
			case <-gone:
				cancel()
			case <-during.Done():
			}
		}()
		for message, err := range store.Subscribe(during, after, filter) {
			if err != nil && ctx.Err() == nil && during.Err() != nil {
				err = fmt.Errorf("%w: it was replaced", eventstore.ErrUnavailable)
			}
			if !yield(message, err) || err != nil {
				return
			}
		}
	}
}
