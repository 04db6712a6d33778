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
	visitorMemory = 10 * time.Minute // since the last visit
	maxVisitors   = 10_000
)

// visitors bounds the lookups of unknown sessions of one address, as for API keys. Addresses with known sessions are
// not affected.
type visitors struct {
	lookups *wire.Askers
	seen    *wire.Recent[[sha256.Size]byte, time.Time] // recently valid sessions
}

func newVisitors() visitors {
	return visitors{wire.NewAskers(), wire.NewRecent[[sha256.Size]byte, time.Time](maxVisitors)}
}

// session returns the session of the token in a request.
func (v *visitors) session(r *http.Request, c *Console) (Session, error) {
	cookie, err := r.Cookie(c.cookie)
	if err != nil || !wellFormed(cookie.Value) {
		return Session{}, query.ErrNotFound
	}
	hash, now, from := hashOf(cookie.Value), c.Now(), wire.ClientAddress(r, c.TrustedProxies)
	known := v.known([sha256.Size]byte(hash), now)
	if !known {
		if err := v.lookups.Take(from, now, "sessions"); err != nil {
			return Session{}, err
		}
	}
	session, err := c.Sessions.Find(r.Context(), hash, now)
	if err != nil {
		v.seen.Forget([sha256.Size]byte(hash))
		return Session{}, err
	}
	if !known {
		v.lookups.GiveBack(from)
	}
	v.seen.Set([sha256.Size]byte(hash), now)
	return session, nil
}

// wellFormed reports whether a text can be a token: others are not looked up.
func wellFormed(token string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(raw) == tokenSize
}

func (v *visitors) known(hash [sha256.Size]byte, now time.Time) bool {
	last, known := v.seen.Get(hash)
	return known && now.Sub(last) < visitorMemory
}
