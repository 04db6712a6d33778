package console

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

const (
	visitorKnown = 10 * time.Minute // since the last visit
	visitorsHeld = 10_000
)

// visitors keeps those who make up sessions from asking Postgres for each: the same as of keys may be asked for from one
// address. Those whose sessions were there before go on from the same one.
type visitors struct {
	askers *wire.Askers
	seen   *wire.Recent[[sha256.Size]byte, time.Time] // sessions that were there when they were asked for last
}

func newVisitors() visitors {
	return visitors{wire.NewAskers(), wire.NewRecent[[sha256.Size]byte, time.Time](visitorsHeld)}
}

// session is the one whose token a request shows.
func (v *visitors) session(r *http.Request, c *Console) (Session, error) {
	cookie, err := r.Cookie(c.cookie)
	if err != nil || !wellFormed(cookie.Value) {
		return Session{}, query.ErrNotFound
	}
	hash, now, from := hashOf(cookie.Value), c.Now(), wire.ClientAddress(r, c.TrustedProxies)
	known := v.known([sha256.Size]byte(hash), now)
	if !known {
		if err := v.askers.Take(from, now, "sessions"); err != nil {
			return Session{}, err
		}
	}
	session, err := c.Sessions.Find(r.Context(), hash, now)
	if err != nil {
		v.seen.Forget([sha256.Size]byte(hash))
		return Session{}, err
	}
	if !known {
		v.askers.GiveBack(from)
	}
	v.seen.Set([sha256.Size]byte(hash), now)
	return session, nil
}

// wellFormed reports whether a text can be a token: what can't is not asked for.
func wellFormed(token string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(raw) == tokenSize
}

func (v *visitors) known(hash [sha256.Size]byte, now time.Time) bool {
	last, known := v.seen.Get(hash)
	return known && now.Sub(last) < visitorKnown
}
