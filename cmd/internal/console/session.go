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
	"carillon/query"
)

const (
	// SessionLength is how long a sign-in lasts.
	SessionLength = 8 * time.Hour
	// LinkLength is how long a login link can be opened.
	LinkLength = 15 * time.Minute

	// Each console has a cookie of its own: a browser keeps cookies by host, whatever the port.
	cookieName          = "carillon_console"
	operatorsCookieName = "carillon_operators"
)

// Role is as what somebody is signed in.
type Role string

// The roles.
const (
	ForOrganization Role = "organization"
	ForOperator          = Role(adminapi.RoleOperator)
	ForAuditor           = Role(adminapi.RoleAuditor)
)

// Session is somebody who is signed in.
type Session struct {
	Role         Role
	Organization uuid.UUID            // uuid.Nil: all of them
	Name         string               // of the organization, or of the operator: "" for the configured admin token
	Key          string               // the id of the API key or token that it was signed in with; "": a login link
	Scopes       []organization.Scope // of the API key
	Requests     *int64               // that the organization may make in a second; nil: as many as by default
	ExpiresAt    time.Time
}

// Actor is who acts, as the events name it.
func (s Session) Actor() string {
	switch {
	case s.Role != ForOrganization:
		return s.principal().Actor()
	case s.Key == "":
		return "console"
	}
	return "key:" + s.Key
}

// principal is who a session's token belongs to, on the side of operators and auditors.
func (s Session) principal() adminapi.Principal {
	return adminapi.Principal{Role: adminapi.Role(s.Role), Name: s.Name, TokenID: s.Key, Organization: s.Organization}
}

// shown is the name of who is signed in, for the page.
func (s Session) shown() string {
	switch {
	case s.Role == ForAuditor:
		return "Auditor " + s.Key
	case s.Role == ForOperator && s.Name == "":
		return "Operator"
	}
	return s.Name
}

// Sessions keeps sessions and login links, for all nodes. It knows tokens by their hashes alone.
type Sessions interface {
	Begin(ctx context.Context, hash []byte, s Session, now time.Time) error
	// Find gives a session that has not ended, or query.ErrNotFound. That of an organization has ended with its API key, and
	// with the suspension of the organization.
	Find(ctx context.Context, hash []byte, now time.Time) (Session, error)
	End(ctx context.Context, hash []byte) error
	// Ended tells which of some sessions have ended. They are named by sessionName.
	Ended(ctx context.Context, sessions []string, now time.Time) ([]string, error)
	// Link keeps a login link, or gives query.ErrNotFound where there is no such organization.
	Link(ctx context.Context, hash []byte, organization uuid.UUID, expires time.Time) error
	// Open uses a login link up, or gives query.ErrNotFound for one that was used, has expired, or never was.
	Open(ctx context.Context, hash []byte, now time.Time) (organization uuid.UUID, err error)
}

const tokenSize = 32 // bytes

// newToken makes what a cookie or a link holds: 256 bits by chance.
func newToken() string {
	var token [tokenSize]byte
	_, _ = rand.Read(token[:]) // never fails
	return base64.RawURLEncoding.EncodeToString(token[:])
}

func hashOf(token string) []byte {
	sum := sha256.Sum256([]byte(token))
	return sum[:]
}

// NewLink makes a login link for the people of an organization. It works once, for LinkLength; address is where it leads,
// below the address of the API.
func NewLink(ctx context.Context, sessions Sessions, organization uuid.UUID, now time.Time) (address string, expires time.Time, err error) {
	token := newToken()
	expires = now.Add(LinkLength)
	return Base + "/enter?token=" + token, expires, sessions.Link(ctx, hashOf(token), organization, expires)
}

func (c *Console) sessionOf(r *http.Request) (Session, error) {
	session, err := c.visitors.session(r, c)
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

// begin signs somebody in.
func (c *Console) begin(w http.ResponseWriter, r *http.Request, s Session) error {
	token := newToken()
	s.ExpiresAt = c.Now().Add(SessionLength)
	if err := c.Sessions.Begin(r.Context(), hashOf(token), s, c.Now()); err != nil {
		return err
	}
	c.setCookie(w, r, token, s.ExpiresAt)
	return nil
}

// setCookie keeps the token where neither scripts nor pages of others reach it. Only on this machine it may travel in
// the clear.
func (c *Console) setCookie(w http.ResponseWriter, r *http.Request, token string, expires time.Time) {
	http.SetCookie(w, &http.Cookie{ //nolint:gosec // in the clear for this machine alone, where make run has no certificate
		Name: c.cookie, Value: token, Path: Base, Expires: expires, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil || !peerIsLocal(r),
	})
}

func peerIsLocal(r *http.Request) bool {
	peer, err := netip.ParseAddrPort(r.RemoteAddr)
	return err == nil && peer.Addr().Unmap().IsLoopback() && r.Header.Get("X-Forwarded-For") == "" && r.Header.Get("X-Forwarded-Proto") == ""
}

// whereTo is where a visitor wanted to go: an address of the console, and never one of others.
func whereTo(next string) string {
	at, err := url.Parse(next)
	if err != nil || at.IsAbs() || at.Host != "" || path.Clean(at.Path) != at.Path || !strings.HasPrefix(at.Path, Base+"/") ||
		at.Path == Base+"/enter" || strings.Contains(next, `\`) {
		return Base + "/"
	}
	return at.Path + querySuffix(at.RawQuery)
}

func querySuffix(raw string) string {
	if raw == "" {
		return ""
	}
	return "?" + raw
}
