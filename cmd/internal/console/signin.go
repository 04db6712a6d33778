package console

import (
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/wire"
	"carillon/query"
)

func (c *Console) signInRoutes(r chi.Router) {
	tls := wire.RequireTLS(c.TrustedProxies, surface)
	r.With(tls).Get("/sign-in", c.showSignIn)
	r.With(tls).Post("/sign-in", c.signIn)
	r.With(tls).Post("/sign-out", c.signOut)
	if c.operators == nil {
		r.With(tls).Get("/enter", c.showLink)
		r.With(tls).Post("/enter", c.enter)
	}
}

// signInForm is the sign-in page.
type signInForm struct {
	Next    string
	Refusal string
}

// showSignIn answers GET /console/sign-in.
func (c *Console) showSignIn(w http.ResponseWriter, r *http.Request) {
	c.render(w, r, screen{
		Title:    "Sign in",
		Template: "signin",
		Data:     signInForm{Next: safeRedirect(r.URL.Query().Get("next"))},
	})
}

// signIn answers POST /console/sign-in: an API key becomes a session.
func (c *Console) signIn(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	form := signInForm{Next: safeRedirect(r.PostFormValue("next"))}
	err := c.exchange(w, r, strings.TrimSpace(r.PostFormValue("key")))
	if err == nil {
		//nolint:gosec // safeRedirect returns addresses of the console only
		http.Redirect(w, r, form.Next, http.StatusSeeOther)
		return
	}
	failure := wire.FailureOf(err)
	wire.NoteFailure(r.Context(), failure)
	form.Refusal = upperFirst(failure.Error()) + "."
	c.render(w, r, screen{
		Title:    "Sign in",
		Template: "signin",
		Data:     form,
		Status:   failure.Status(),
	})
}

func (c *Console) exchange(w http.ResponseWriter, r *http.Request, text string) error {
	if err := c.checkSignInLimit(r); err != nil {
		return err
	}
	session, what, err := c.identify(r, text)
	if errors.Is(err, query.ErrNotFound) {
		c.failed(r, "an "+what)
		return &wire.Failure{Kind: wire.Unauthenticated, Issue: fmt.Sprintf(notValid, what), Cause: err}
	}
	if err != nil {
		return err
	}
	return c.begin(w, r, session)
}

// identify returns the session for a credential, and the name of the credential that the console expects.
func (c *Console) identify(r *http.Request, text string) (session Session, what string, err error) {
	if c.operators != nil {
		session, err = c.operators.session(r.Context(), text)
		return session, "admin or auditor's token", err
	}
	key, err := c.Verify(r, text)
	return Session{Role: ForOrganization, Organization: key.Organization, Key: key.ID}, "API key", err
}

const maxFailedSignIns = 10 // of an address, in a minute

// NewLoginLimiter returns the limiter of failed sign-ins.
func NewLoginLimiter() *wire.AddressLimiter {
	return wire.NewAddressLimiter(maxFailedSignIns, time.Minute)
}

// checkSignInLimit refuses an address with too many failed sign-ins.
func (c *Console) checkSignInLimit(r *http.Request) error {
	wait := c.LoginLimiter.Wait(wire.ClientAddress(r, c.TrustedProxies), c.Now())
	if wait == 0 {
		return nil
	}
	return &wire.Failure{
		Kind:       wire.RateLimited,
		RetryAfter: max(wait, time.Second),
		Issue:      fmt.Sprintf(tooManySignIns, max(wait, time.Second).Round(time.Second)),
	}
}

func (c *Console) failed(r *http.Request, what string) {
	c.LoginLimiter.Take(wire.ClientAddress(r, c.TrustedProxies), c.Now())
	c.Log.WarnContext(r.Context(), "console sign-in failed", slog.String("with", what), slog.String("peer",
		r.RemoteAddr))
}

// signOut answers POST /console/sign-out.
func (c *Console) signOut(w http.ResponseWriter, r *http.Request) {
	switch _, err := c.visitor(r); {
	case errors.Is(err, query.ErrNotFound): // it has expired
		logUnknownVisitor(r)
	case err != nil:
		c.fail(w, r, err)
		return
	default:
		cookie, _ := r.Cookie(c.cookie) // always present here
		if err := c.Sessions.End(r.Context(), hashOf(cookie.Value)); err != nil {
			c.fail(w, r, err)
			return
		}
	}
	c.setCookie(w, r, "", time.Unix(1, 0))
	http.Redirect(w, r, Base+"/sign-in", http.StatusSeeOther)
}

// enterForm is the page of a login link.
type enterForm struct{ Token, Next string }

// showLink answers GET /console/enter?token=…, whose query is not logged. It asks for a click, because previews in
// chats and scanners of mail would consume the link.
func (c *Console) showLink(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Referrer-Policy", "no-referrer")
	c.render(w, r, screen{
		Title:    "Open the console",
		Template: "enter",
		Data:     enterForm{r.URL.Query().Get("token"), safeRedirect(r.URL.Query().Get("next"))},
	})
}

// enter answers POST /console/enter: the link becomes a session, once.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if err := c.checkSignInLimit(r); err != nil {
		c.fail(w, r, err)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	visitor, err := c.Sessions.Open(r.Context(), hashOf(r.PostFormValue("token")), c.Now())
	switch {
	case errors.Is(err, query.ErrNotFound):
		c.failed(r, "a login link")
		c.fail(w, r, &wire.Failure{Kind: wire.Unauthenticated, Issue: usedLink, Cause: err})
		return
	case err == nil:
		err = c.begin(w, r, Session{
			Role:         ForOrganization,
			Organization: visitor.Organization,
			Person:       visitor.Person,
			Scopes:       visitor.Scopes,
		})
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	//nolint:gosec // safeRedirect returns addresses of the console only
	http.Redirect(w, r, safeRedirect(r.PostFormValue("next")), http.StatusSeeOther)
}
