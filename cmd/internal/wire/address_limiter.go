package wire

import (
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"
	"golang.org/x/time/rate"
)

const maxAddresses = 10_000

// AddressLimiter has a token bucket for each address. An IPv6 address counts as its network. If there are too many
// addresses, the one that has been quiet for longest is forgotten. It is safe for concurrent use.
type AddressLimiter struct {
	limit rate.Limit
	burst int
	all   *lru.Cache[netip.Prefix, *rate.Limiter]
}

// NewAddressLimiter returns a limiter that has seen no address. Buckets hold burst tokens, and are filled in a time.
func NewAddressLimiter(burst int, in time.Duration) *AddressLimiter {
	return &AddressLimiter{
		limit: rate.Limit(float64(burst) / in.Seconds()),
		burst: burst,
		all:   NewRecent[netip.Prefix, *rate.Limiter](maxAddresses),
	}
}

// Take takes a token, and reports whether there was one.
func (l *AddressLimiter) Take(from netip.Addr, now time.Time) bool { return l.of(from).AllowN(now, 1) }

// GiveBack returns a token that was taken.
func (l *AddressLimiter) GiveBack(from netip.Addr, now time.Time) { l.of(from).AllowN(now, -1) }

// Wait returns the time until an address has a token.
func (l *AddressLimiter) Wait(from netip.Addr, now time.Time) time.Duration {
	bucket, known := l.all.Peek(NetworkOf(from))
	if !known {
		return 0
	}
	missing := 1 - bucket.TokensAt(now)
	return max(0, time.Duration(missing/float64(l.limit)*float64(time.Second)))
}

// of returns the bucket of an address.
func (l *AddressLimiter) of(from netip.Addr) *rate.Limiter {
	return GetOrAdd(l.all, NetworkOf(from), func() *rate.Limiter { return rate.NewLimiter(l.limit, l.burst) })
}

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
