package console

import (
	"net/netip"
	"sync"
	"time"

	"carillon/cmd/internal/wire"
)

const (
	guessesAtMost = 10 // failed sign-ins of an address
	guessesWithin = time.Minute
	guessersHeld  = 10_000
)

// Guesses counts failed sign-ins by address. The zero value is ready to use.
type Guesses struct {
	mu    sync.Mutex
	known map[netip.Prefix]guesser
}

type guesser struct {
	since time.Time
	count int
}

// Wait is how long an address has to wait before its next try.
func (g *Guesses) Wait(from netip.Addr, now time.Time) time.Duration {
	g.mu.Lock()
	defer g.mu.Unlock()
	who := g.known[wire.NetworkOf(from)]
	if who.count < guessesAtMost {
		return 0
	}
	return max(0, who.since.Add(guessesWithin).Sub(now))
}

// Failed counts a sign-in that failed.
func (g *Guesses) Failed(from netip.Addr, now time.Time) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.known == nil {
		g.known = map[netip.Prefix]guesser{}
	}
	if len(g.known) >= guessersHeld {
		for at, who := range g.known {
			if now.Sub(who.since) >= guessesWithin {
				delete(g.known, at)
			}
		}
		if len(g.known) >= guessersHeld {
			clear(g.known)
		}
	}
	who := g.known[wire.NetworkOf(from)]
	if now.Sub(who.since) >= guessesWithin {
		who = guesser{since: now}
	}
	who.count++
	g.known[wire.NetworkOf(from)] = who
}
