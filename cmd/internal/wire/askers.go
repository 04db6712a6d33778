package wire

import (
	"net/netip"
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
// network. Where there are too many addresses, the one is forgotten that asked last the longest time ago.
type Askers struct{ all *Recent[netip.Prefix, bucket] }

// NewAskers returns one that knows of no address.
func NewAskers() *Askers { return &Askers{NewRecent[netip.Prefix, bucket](maxAddresses)} }

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

func (a *Askers) take(from netip.Addr, now time.Time) (allowed bool) {
	a.all.Change(NetworkOf(from), func(held bucket, ok bool) bucket {
		if !ok {
			held = bucket{left: askersBurst, at: now}
		}
		held = held.refilled(now)
		if allowed = held.left >= 1; allowed {
			held.left--
		}
		return held
	})
	return allowed
}

// GiveBack undoes a Take of what was valid.
func (a *Askers) GiveBack(from netip.Addr) {
	a.all.Change(NetworkOf(from), func(held bucket, _ bool) bucket {
		held.left = min(held.left+1, askersBurst)
		return held
	})
}

func (b bucket) refilled(now time.Time) bucket {
	if passed := now.Sub(b.at).Seconds(); passed > 0 {
		b.left, b.at = min(b.left+passed*askersRate, askersBurst), now
	}
	return b
}
