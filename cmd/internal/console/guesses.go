package console

import (
	"net/http"
	"net/netip"
	"sync"
	"time"
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
	who := g.known[network(from)]
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
	who := g.known[network(from)]
	if now.Sub(who.since) >= guessesWithin {
		who = guesser{since: now}
	}
	who.count++
	g.known[network(from)] = who
}

// network is what one guesser can have many addresses of.
func network(from netip.Addr) netip.Prefix {
	from = from.Unmap()
	bits := 64
	if from.Is4() {
		bits = 32
	}
	prefix, _ := from.Prefix(bits) // the zero prefix stands for an address that is none
	return prefix
}

func peerOf(r *http.Request) netip.Addr {
	peer, _ := netip.ParseAddrPort(r.RemoteAddr)
	return peer.Addr()
}
