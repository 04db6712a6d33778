package wire

import (
	"container/list"
	"sync"
)

// Recent keeps the entries that were set last, at most max of them: if one more comes, the oldest one goes. It is safe
// for concurrent use.
type Recent[K comparable, V any] struct {
	max int

	mu    sync.Mutex
	known map[K]*list.Element
	order *list.List // of recentEntry, the newest first
}

type recentEntry[K comparable, V any] struct {
	key   K
	value V
}

// NewRecent returns an empty one.
func NewRecent[K comparable, V any](maximum int) *Recent[K, V] {
	return &Recent[K, V]{max: maximum, known: map[K]*list.Element{}, order: list.New()}
}

// Get returns what was set last for a key.
func (r *Recent[K, V]) Get(key K) (value V, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.get(key)
}

func (r *Recent[K, V]) get(key K) (value V, ok bool) {
	at, known := r.known[key]
	if !known {
		return value, false
	}
	entry, ok := at.Value.(*recentEntry[K, V])
	return entry.value, ok
}

// Change sets an entry to the result of change. ok reports whether it was there.
func (r *Recent[K, V]) Change(key K, change func(before V, ok bool) V) {
	r.mu.Lock()
	defer r.mu.Unlock()
	after := change(r.get(key))
	if at, known := r.known[key]; known {
		at.Value = &recentEntry[K, V]{key, after}
		r.order.MoveToFront(at)
		return
	}
	if len(r.known) >= r.max {
		oldest := r.order.Back()
		if entry, ok := r.order.Remove(oldest).(*recentEntry[K, V]); ok {
			delete(r.known, entry.key)
		}
	}
	r.known[key] = r.order.PushFront(&recentEntry[K, V]{key, after})
}

// Set sets an entry.
func (r *Recent[K, V]) Set(key K, value V) { r.Change(key, func(V, bool) V { return value }) }

// Forget drops an entry.
func (r *Recent[K, V]) Forget(key K) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if at, known := r.known[key]; known {
		r.order.Remove(at)
		delete(r.known, key)
	}
}
