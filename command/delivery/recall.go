package delivery

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// maxRecalled bounds the streams that a recall remembers: up to twice as many.
const maxRecalled = 10_000

// recall caches values read from streams until they change. They are always current: while changes are not
// followed, nothing is cached and each stream is read again.
type recall[T any] struct {
	read func(ctx context.Context, id uuid.UUID) (T, error)

	mu              sync.Mutex
	following       bool
	changes         uint64 // values read before the last one are not cached
	recent, earlier map[uuid.UUID]T
}

// get returns the cached value of a stream, or reads it.
func (r *recall[T]) get(ctx context.Context, id uuid.UUID) (T, error) {
	r.mu.Lock()
	changes := r.changes
	known, is := r.recent[id]
	if !is {
		if known, is = r.earlier[id]; is {
			r.keep(id, known)
		}
	}
	r.mu.Unlock()
	if is {
		return known, nil
	}
	read, err := r.read(ctx, id)
	if err != nil {
		return read, err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.following && r.changes == changes {
		r.keep(id, read)
	}
	return read, nil
}

// keep caches a value, and drops those not used since the last maxRecalled. The mutex is held.
func (r *recall[T]) keep(id uuid.UUID, read T) {
	if len(r.recent) >= maxRecalled {
		r.earlier, r.recent = r.recent, nil
	}
	if r.recent == nil {
		r.recent = map[uuid.UUID]T{}
	}
	r.recent[id] = read
}

// forget drops the cached value of a stream that has changed.
func (r *recall[T]) forget(id uuid.UUID) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changes++
	delete(r.recent, id)
	delete(r.earlier, id)
}

// follow starts or stops caching.
func (r *recall[T]) follow(following bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.following = following
	r.changes++
	r.recent, r.earlier = nil, nil
}

// loading is a read for a recall: it returns a part of an aggregate's state.
func loading[S, E, C, T any](store eventstore.Store, of eventstore.Aggregate[S, E, C],
	wanted func(S) T) func(context.Context, uuid.UUID) (T, error) {
	return func(ctx context.Context, id uuid.UUID) (T, error) {
		known, err := of.Load(ctx, store, id)
		if errors.Is(err, eventstore.ErrStreamDeleted) {
			err = nil
		}
		return wanted(known.State), err
	}
}
