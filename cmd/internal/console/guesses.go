package console

import (
	"net/netip"
	"time"

	"carillon/cmd/internal/wire"
)

const (
	guessesAtMost = 10 // failed sign-ins of an address
	guessesWithin = time.Minute
	guessersHeld  = 10_000
)

// Guesses counts failed sign-ins by address.
type Guesses struct {
	known *wire.Recent[netip.Prefix, guesser]
}

// NewGuesses returns one that knows of no address.
func NewGuesses() *Guesses { return &Guesses{wire.NewRecent[netip.Prefix, guesser](guessersHeld)} }

type guesser struct {
	since time.Time
	count int
}

// Wait is how long an address has to wait before its next try.
func (g *Guesses) Wait(from netip.Addr, now time.Time) time.Duration {
	who, _ := g.known.Get(wire.NetworkOf(from))
	if who.count < guessesAtMost {
		return 0
	}
	return max(0, who.since.Add(guessesWithin).Sub(now))
}

// Failed counts a sign-in that failed.
func (g *Guesses) Failed(from netip.Addr, now time.Time) {
	g.known.Change(wire.NetworkOf(from), func(who guesser, _ bool) guesser {
		if now.Sub(who.since) >= guessesWithin {
			who = guesser{since: now}
		}
		who.count++
		return who
	})
}
