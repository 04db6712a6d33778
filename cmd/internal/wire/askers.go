package wire

import (
	"net/netip"
	"sync"
	"time"
)

// How many keys and sessions that this process has not met may be asked for from one address: a thousand at once, a
// hundred a second. Those that turn out to be valid don't count, so that many callers behind one address get through.
const (
	askersBurst  = 1000
	askersRate   = 100 // a second
	askersRefill = time.Second

	maxAddresses = 10_000
)

// Askers counts what was asked for from each address and nobody has: a token bucket each. An IPv6 address counts as its
// network. The zero value is ready to use.
type Askers struct {
	mu  sync.Mutex
	all map[netip.Prefix]bucket
}

type bucket struct {
	left float64
	at   time.Time
}

// Take refuses to ask for a credential from an address that has shown too many that nobody has. what are they.
func (a *Askers) Take(from netip.Addr, now time.Time, what string) error {
	if a.take(from, now) {
		return nil
	}
	return &Failure{
		Kind: RateLimited, RetryAfter: askersRefill,
		Issue: "too many " + what + " that are not valid came from this address; try again in a second",
	}
}

func (a *Askers) take(from netip.Addr, now time.Time) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := NetworkOf(from)
	held, ok := a.all[network]
	if !ok {
		a.makeRoom(now)
		held = bucket{left: askersBurst, at: now}
	}
	held = held.refilled(now)
	allowed := held.left >= 1
	if allowed {
		held.left--
	}
	a.all[network] = held
	return allowed
}

// GiveBack undoes a Take of what was valid.
func (a *Askers) GiveBack(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	network := NetworkOf(from)
	if held, ok := a.all[network]; ok {
		held.left = min(held.left+1, askersBurst)
		a.all[network] = held
	}
}

// makeRoom forgets addresses whose buckets are full again, and all of them where that is less than half. Questions to
// Postgres are few even then, because each is about many keys.
func (a *Askers) makeRoom(now time.Time) {
	if a.all == nil {
		a.all = map[netip.Prefix]bucket{}
	}
	if len(a.all) < maxAddresses {
		return
	}
	for network, held := range a.all {
		if held.refilled(now).left >= askersBurst {
			delete(a.all, network)
		}
	}
	if len(a.all) > maxAddresses/2 {
		clear(a.all)
	}
}

func (b bucket) refilled(now time.Time) bucket {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(b.left+passed*askersRate, askersBurst), now
	}
	return b
}
