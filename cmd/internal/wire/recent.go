package wire

import lru "github.com/hashicorp/golang-lru/v2"

// NewRecent returns a cache of the entries that were used last, at most maximum of them.
func NewRecent[K comparable, V any](maximum int) *lru.Cache[K, V] {
	cache, _ := lru.New[K, V](maximum) // fails for a maximum below 1 only
	return cache
}

// GetOrAdd returns the entry of a key. If there is none, it adds the result of create.
func GetOrAdd[K comparable, V any](cache *lru.Cache[K, V], key K, create func() V) V {
	if known, is := cache.Get(key); is {
		return known
	}
	created := create()
	if known, is, _ := cache.PeekOrAdd(key, created); is { // another caller was faster
		return known
	}
	return created
}
