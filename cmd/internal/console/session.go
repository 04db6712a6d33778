package console

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/query"
)

const (
	// SessionLength is the lifetime of a session.
	SessionLength = 8 * time.Hour
	// LinkLength is the lifetime of a login link.
	LinkLength = 15 * time.Minute

	// Each console has its own cookie: browsers keep cookies by host, regardless of the port.
	cookieName          = "carillon_console"
	operatorsCookieName = "carillon_operators"
)

// Role is the role of a session.
type Role string

// The roles.
const (
	ForOrganization Role = "organization"
	ForOperator          = Role(adminapi.RoleOperator)
	ForAuditor           = Role(adminapi.RoleAuditor)
)

// Session is a signed-in visitor.
type Session struct {
	Role         Role
	Organization uuid.UUID // uuid.Nil for all
	Name         string    // of the organization or operator; empty for the configured admin token
	// Key is the id of the API key or token used to sign in. Empty for a login link.
	Key       string
	Person    string               // of a login link, as eventstore.MadeBy has it; empty for links from before 2026-11-27
	Scopes    []organization.Scope // of the API key or login link; of a login link, none means all
	ExpiresAt time.Time
}

// Actor returns the actor for events.
func (s Session) Actor() string {
	switch {
	case s.Role != ForOrganization:
		return s.principal().Actor()
	case s.Person != "":
		return eventstore.PersonActor(s.Person)
	case s.Key == "":
		return "console"
	}
	return "key:" + s.Key
}

// principal returns the holder of a session's token on the operators' console.
func (s Session) principal() adminapi.Principal {
	return adminapi.Principal{
		Role:         adminapi.Role(s.Role),
		Name:         s.Name,
		TokenID:      s.Key,
		Organization: s.Organization,
	}
}

// shown returns the name of the visitor for the page.
func (s Session) shown() string {
	switch {
	case s.Role == ForAuditor:
		return s.Name + ", auditor"
	case s.Role == ForOperator && s.Name == "":
		return "Operator"
	case s.Person != "":
		return s.Person + ", " + s.Name
	}
	return s.Name
}

// Sessions stores sessions and login links, for all nodes. It stores only hashes of tokens.
type Sessions interface {
	Begin(ctx context.Context, hash []byte, s Session, now time.Time) error
	// Find returns a session that has not ended, or query.ErrNotFound. An organization's session ends with its API
	// key, and with the suspension of the organization.
	Find(ctx context.Context, hash []byte, now time.Time) (Session, error)
	End(ctx context.Context, hash []byte) error
	// Link stores a login link, or returns query.ErrNotFound if there is no such organization.
	Link(ctx context.Context, hash []byte, of adminapi.ConsoleVisitor, expires time.Time) error
	// Open consumes a login link, or returns query.ErrNotFound if it was used, has expired, or never existed.
	Open(ctx context.Context, hash []byte, now time.Time) (of adminapi.ConsoleVisitor, err error)
}

const tokenSize = 32 // bytes

// newToken returns a random value of 256 bits for a cookie or a link.
func newToken() string {
	var token [tokenSize]byte
	_, _ = rand.Read(token[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(token[:])
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// NewLink creates a login link for a person of an organization. It works once, within LinkLength; address is its
// target, below the address of the API.
func NewLink(ctx context.Context, sessions Sessions, of adminapi.ConsoleVisitor,
	now time.Time) (address string, expires time.Time, err error) {
	token := newToken()
	expires = now.Add(LinkLength)
	return Base + "/enter?token=" + token, expires, sessions.Link(ctx, hashOf(token), of, expires)
}

func (c *Console) sessionOf(r *http.Request) (Session, error) {
	session, err := c.visitor(r)
	switch {
	case err != nil:
		return Session{}, err
	case c.operators != nil:
		return c.operators.stillValid(r.Context(), session)
	case session.Role != ForOrganization:
		return Session{}, query.ErrNotFound
	}
	return session, nil
}

// begin starts a session.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, s Session) error {
	token := newToken()
	s.ExpiresAt = c.Now().Add(SessionLength)
	if err := c.Sessions.Begin(r.Context(), hashOf(token), s, c.Now()); err != nil {
		return err
	}
	c.setCookie(w, r, token, s.ExpiresAt)
	return nil
}

// setCookie sets the session cookie, out of reach of scripts and foreign pages. It is sent without TLS on the
// local machine only. If other sites may frame the console, browsers keep a cookie for each of these sites.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, token string, expires time.Time) {
	//nolint:gosec // without TLS on the local machine only, where make run has no certificate
	cookie := &http.Cookie{
		Name:     c.cookie,
		Value:    token,
		Path:     Base,
		Expires:  expires,
		HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil || !peerIsLocal(r),
	}
	if c.framed() {
		cookie.SameSite, cookie.Secure, cookie.Partitioned = http.SameSiteNoneMode, true, true
	}
	http.SetCookie(w, cookie)
}

func peerIsLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && r.Header.Get("X-Forwarded-For") == "" &&
		r.Header.Get("X-Forwarded-Proto") == ""
}

// safeRedirect returns the requested address if it is one of the console.
func safeRedirect(next string) string {
	at, err := url.Parse(next)
	if err != nil || at.IsAbs() || at.Host != "" || path.Clean(at.Path) != at.Path || !strings.HasPrefix(at.Path, Base+
		"/") ||
		at.Path == Base+"/enter" || strings.Contains(next, `\`) {
		return Base + "/"
	}
	if at.RawQuery == "" {
		return at.Path
	}
	return at.Path + "?" + at.RawQuery
}

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
