package console

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

// visitor returns the session of the token in a request. Look-ups of unknown sessions from one address are limited, as
// for API keys.
func (c *Console) visitor(r *http.Request) (session Session, err error) {
	cookie, err := r.Cookie(c.cookie)
	if err != nil || !wellFormed(cookie.Value) {
		return Session{}, query.ErrNotFound
	}
	hash, now := hashOf(cookie.Value), c.Now()
	from := wire.ClientAddress(r, c.TrustedProxies)
	err = c.visitors.LookUp([sha256.Size]byte(hash), from, now, func() (err error) {
		session, err = c.Sessions.Find(r.Context(), hash, now)
		return err
	})
	return session, err
}

// wellFormed reports whether a text can be a token: others are not looked up.
func wellFormed(token string) bool {
	raw, err := base64.RawURLEncoding.DecodeString(token)
	return err == nil && len(raw) == tokenSize
}
