package wire

import (
	"crypto/sha256"
	"errors"
	"net/netip"
	"time"

	lru "github.com/hashicorp/golang-lru/v2"

	"carillon/command/sampling"
)

// Limits of look-ups of unknown credentials from one address: a thousand at once, a hundred a second.
const (
	unknownBurst = 1000
	unknownIn    = 10 * time.Second

	maxCredentials = 10_000
)

// Credentials remembers API keys, tokens or sessions that were valid when they were looked up last, and limits the
// look-ups of others from one address. Valid ones don't count, so that many callers behind one address get through.
type Credentials struct {
	what    string
	invalid error // of a look-up
	unknown *AddressLimiter
	valid   *lru.Cache[[sha256.Size]byte, struct{}]
}

// NewCredentials returns empty Credentials. what names their kind, and a look-up of an invalid one fails with the error
// invalid.
func NewCredentials(what string, invalid error) *Credentials {
	return &Credentials{
		what:    what,
		invalid: invalid,
		unknown: NewAddressLimiter(unknownBurst, unknownIn),
		valid:   NewRecent[[sha256.Size]byte, struct{}](maxCredentials),
	}
}

// LookUp calls find for a credential. An address that has shown too many invalid ones is refused until it slows down,
// except for known ones.
func (c *Credentials) LookUp(hash [sha256.Size]byte, from netip.Addr, now time.Time, find func() error) error {
	_, known := c.valid.Get(hash)
	if !known && !c.unknown.Take(from, now) {
		return &Failure{
			Kind:       RateLimited,
			RetryAfter: time.Second,
			Issue:      "too many " + c.what + " that are not valid came from this address; try again in a second",
		}
	}
	if err := find(); err != nil {
		if errors.Is(err, c.invalid) {
			c.valid.Remove(hash)
		}
		return err
	}
	if !known {
		c.unknown.GiveBack(from, now)
	}
	c.valid.Add(hash, struct{}{})
	return nil
}

// unknownCallerLines bounds the lines of requests without a valid key, or beyond a rate.
var unknownCallerLines = sampling.Rule{
	Lines: 50,
	Per:   time.Second,
	Count: "leftOut",
}

// unidentifiedCaller reports whether a request was refused before its caller was known, or because of a rate.
func unidentifiedCaller(rec *record) bool {
	return rec != nil && rec.failure != nil &&
		(rec.anybody || rec.failure.Kind == Unauthenticated || rec.failure.Kind == RateLimited)
}
