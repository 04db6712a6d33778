package console

import (
	"net/netip"
	"time"

	"carillon/cmd/internal/wire"
)

const (
	maxFailedSignIns   = 10 // failed sign-ins of an address
	failedSignInWindow = time.Minute
	maxSignInAddresses = 10_000
)

// LoginLimiter counts failed sign-ins by address.
type LoginLimiter struct {
	known *wire.Recent[netip.Prefix, failedSignIns]
}

// NewLoginLimiter returns an empty LoginLimiter.
func NewLoginLimiter() *LoginLimiter {
	return &LoginLimiter{wire.NewRecent[netip.Prefix, failedSignIns](maxSignInAddresses)}
}

type failedSignIns struct {
	since time.Time
	count int
}

// Wait returns how long an address has to wait before its next try.
func (g *LoginLimiter) Wait(from netip.Addr, now time.Time) time.Duration {
	who, _ := g.known.Get(wire.NetworkOf(from))
	if who.count < maxFailedSignIns {
		return 0
	}
	return max(0, who.since.Add(failedSignInWindow).Sub(now))
}

// Failed counts a failed sign-in.
func (g *LoginLimiter) Failed(from netip.Addr, now time.Time) {
	g.known.Change(wire.NetworkOf(from), func(who failedSignIns, _ bool) failedSignIns {
		if now.Sub(who.since) >= failedSignInWindow {
			who = failedSignIns{since: now}
		}
		who.count++
		return who
	})
}
