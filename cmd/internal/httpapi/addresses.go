package httpapi

import (
	"net/netip"
	"sync"
	"time"

	"carillon/cmd/internal/wire"
)

// How many keys that this process has not met may be asked for from one address: a thousand at once, a hundred a second.
// Those that turn out to be valid don't count, so that many callers behind one address get through.
const (
	strangersBurst  = 1000
	strangersRate   = 100 // a second
	strangersRefill = time.Second

	maxAddresses = 10_000
)

// addresses counts the keys that were asked for from each address and that nobody has: a token bucket each. An IPv6
// address counts as its network.
type addresses struct {
	mu  sync.Mutex
	all map[netip.Prefix]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// take reports whether a key may be asked for from an address.
func (a *addresses) take(from netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := wire.NetworkOf(from)
	held, ok := a.all[network]
	if !ok {
		a.makeRoom(now)
		held = bucket{left: strangersBurst, at: now}
	}
	held = held.refilled(now)
	allowed := held.left >= 1
	if allowed {
		held.left--
	}
	a.all[network] = held
	return allowed
}

// giveBack undoes a take whose key was valid.
func (a *addresses) giveBack(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := wire.NetworkOf(from)
	if held, ok := a.all[network]; ok {
		held.left = min(held.left+1, strangersBurst)
		a.all[network] = held
	}
}

// makeRoom forgets addresses whose buckets are full again, and all of them where that is less than half. Questions to
// Postgres are few even then, because each is about many keys.
func (a *addresses) makeRoom(now time.Time) {
	if a.all == nil {
		a.all = map[netip.Prefix]bucket{}
	}
	if len(a.all) < maxAddresses {
		return
	}
	for network, held := range a.all {
		if held.refilled(now).left >= strangersBurst {
			delete(a.all, network)
		}
	}
	if len(a.all) > maxAddresses/2 {
		clear(a.all)
	}
}

func (b bucket) refilled(now time.Time) bucket {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(b.left+passed*strangersRate, strangersBurst), now
	}
	return b
}
