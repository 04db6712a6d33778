// Package guard delays answers to wrong passwords.
package guard

import (
	"context"
	"log/slog"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"
)

// LoginLimiter delays answers to wrong passwords, longer with each one from the same place. Only a limited number waits
// for an answer at once: meanwhile all passwords from there are refused.
type LoginLimiter struct {
	log   *slog.Logger
	first time.Duration

	held  atomic.Int64
	total atomic.Int64

	mu     sync.Mutex
	places map[string]*place
}

// place is where guesses come from: an address, or its network where addresses are plenty.
type place struct {
	wrong int
	held  int
	last  time.Time
}

const (
	// FirstDelay is the usual delay of the first wrong password's answer. It doubles up to maxDelays times as much.
	FirstDelay = 250 * time.Millisecond
	maxDelays  = 16
	// heldAt bounds the guesses from one place that wait, heldInAll those of all: at most that many are tried per delay.
	heldAt    = 32
	heldInAll = 256
	// forgottenAfter is how long a place must be quiet to begin again.
	forgottenAfter = 10 * time.Minute
	maxPlaces      = 4 << 10
)

// New returns a LoginLimiter without wrong passwords.
func New(log *slog.Logger, first time.Duration) *LoginLimiter {
	return &LoginLimiter{log: log, first: first, places: make(map[string]*place)}
}

// Right records a right password. It reports whether that may be answered.
func (g *LoginLimiter) Right(address string) bool {
	if g.held.Load() == 0 {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.answers(g.places[network(address)])
}

// Total counts the wrong ones.
func (g *LoginLimiter) Total() int64 { return g.total.Load() }

// answers reports whether another password gets an answer. The lock must be held.
func (g *LoginLimiter) answers(from *place) bool {
	return g.held.Load() < heldInAll && (from == nil || from.held < heldAt)
}

// Wrong records a wrong password, and returns when that may be answered. It returns false, at once, if it may not.
func (g *LoginLimiter) Wrong(ctx context.Context, address string) bool {
	g.total.Add(1)
	delay, done, answers := g.hold(address)
	if !answers {
		return false
	}
	defer done()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
	return true
}

func (g *LoginLimiter) hold(address string) (delay time.Duration, done func(), answers bool) {
	now, name := time.Now(), network(address)
	g.mu.Lock()
	defer g.mu.Unlock()
	from := g.places[name]
	if !g.answers(from) {
		return 0, nil, false
	}
	if from == nil || from.held == 0 && now.Sub(from.last) > forgottenAfter {
		g.makeRoom(now)
		from = &place{}
		g.places[name] = from
	}
	from.wrong++
	from.held++
	from.last = now
	g.held.Add(1)
	if from.wrong&(from.wrong-1) == 0 { // the first, and then ever more seldom
		g.log.Warn("wrong user or password", "from", address, "times", from.wrong)
	}
	delay = min(g.first<<min(from.wrong-1, 8), maxDelays*g.first)
	return delay, func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		from.held--
		g.held.Add(-1)
	}, true
}

// makeRoom forgets quiet places; if all are busy, any without waiting guesses.
func (g *LoginLimiter) makeRoom(now time.Time) {
	if len(g.places) < maxPlaces {
		return
	}
	for name, known := range g.places {
		if known.held == 0 && now.Sub(known.last) > forgottenAfter {
			delete(g.places, name)
		}
	}
	for name, known := range g.places {
		if len(g.places) < maxPlaces {
			return
		}
		if known.held == 0 {
			delete(g.places, name)
		}
	}
}

// network is the prefix that an address counts as. A caller with one address of version 6 has a whole 64-bit network of
// them.
func network(address string) string {
	with, err := netip.ParseAddrPort(address)
	if err != nil {
		return address // a unix socket
	}
	ip := with.Addr().Unmap().WithZone("")
	if ip.Is4() {
		return ip.String()
	}
	masked, err := ip.Prefix(64)
	if err != nil {
		return ip.String()
	}
	return masked.String()
}
