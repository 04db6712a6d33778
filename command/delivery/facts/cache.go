package facts

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	lru "github.com/hashicorp/golang-lru/v2"

	"carillon/eventstore"
)

// maxCached bounds the values of one kind that are kept: the least recently used ones go.
const maxCached = 10_000

// cache keeps values read from streams until they change. They are always current: while changes are not followed,
// nothing is kept and each stream is read again.
type cache[T any] struct {
	read    func(ctx context.Context, id uuid.UUID) (T, error)
	dropped func(T) // called for each value that is not kept any longer, or not at all

	mu        sync.Mutex
	following bool
	changes   uint64 // a value read before the last one is not kept
	values    *lru.Cache[uuid.UUID, T]
}

// newCache makes one that calls dropped for each value that is not kept any longer, or not at all. Optional.
func newCache[T any](read func(context.Context, uuid.UUID) (T, error), dropped func(T)) *cache[T] {
	if dropped == nil {
		dropped = func(T) {}
	}
	values, err := lru.NewWithEvict(maxCached, func(_ uuid.UUID, value T) { dropped(value) })
	if err != nil {
		panic(err) // only a size below 1 fails
	}
	return &cache[T]{read: read, dropped: dropped, values: values}
}

// get returns the kept value of a stream, or reads it.
func (c *cache[T]) get(ctx context.Context, id uuid.UUID) (T, error) {
	c.mu.Lock()
	changes := c.changes
	known, is := c.values.Get(id)
	c.mu.Unlock()
	if is {
		return known, nil
	}
	read, err := c.read(ctx, id)
	if err != nil {
		return read, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.following || c.changes != changes {
		c.dropped(read)
		return read, nil
	}
	if other, is := c.values.Get(id); is { // another caller has read it meanwhile
		return other, nil
	}
	c.values.Add(id, read)
	return read, nil
}

// forget drops the kept value of a stream that has changed.
func (c *cache[T]) forget(id uuid.UUID) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.changes++
	c.values.Remove(id)
}

// follow starts or stops keeping values.
func (c *cache[T]) follow(following bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.following = following
	c.changes++
	c.values.Purge()
}

// loading is a read for a cache: it returns a part of an aggregate's state.
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
