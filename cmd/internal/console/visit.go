package console

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/query"
)

// visit is a request of somebody who is signed in.
type visit struct {
	*http.Request

	session     Session
	shown       uuid.UUID // the organization whose things are shown; uuid.Nil: no particular one
	name        string    // of that organization
	base        string    // the path of its pages
	sessionName string    // which tells it from others, and opens nothing
}

// organization is whose things the visitor sees.
func (v *visit) organization() uuid.UUID { return v.shown }

// to is the address of a page of the organization whose things are shown.
func (v *visit) to(page string) string { return v.base + page }

// caller is who acts.
func (v *visit) caller() command.Caller {
	return command.Caller{
		Organization: v.shown, Actor: v.session.Actor(), RequestID: wire.RequestIDOf(v.Context()),
		ReadsSecrets: v.session.May(organization.ScopeSecrets),
	}
}

// id reads a UUID of the path. What is none is an id that nothing has.
func (v *visit) id(name string) (uuid.UUID, error) {
	id, ok := wire.ParseUUID(chi.URLParam(v.Request, name))
	if !ok {
		return uuid.Nil, query.ErrNotFound
	}
	return id, nil
}

// screen is a page to show.
type screen struct {
	Title    string
	Template string // of templates, without its ending
	Data     any
	Status   int // 0: 200
}

// view is what templates are given.
type view struct {
	Title        string
	Root         string // the path of the console
	Base         string // the path of the pages of the organization that is shown: addresses of those begin with it
	Path         string // of the page
	Query        url.Values
	Who          Role   // "": nobody is signed in
	Operators    bool   // the console is that of operators and auditors
	Bound        bool   // who is signed in sees the record of one organization alone
	Name         string // of who is signed in
	Organization string // the name of the one that is shown; "": no particular one
	Said         string // what the change that led here has done
	session      Session
	Data         any
}

// Here reports whether the page is a navigation's entry, or one below it.
func (v view) Here(entry string) bool {
	return v.Path == entry || !strings.HasSuffix(entry, "/") && strings.HasPrefix(v.Path, entry+"/")
}

type visitKey struct{}

// page serves what a handler shows.
func (c *Console) page(show func(*visit) (screen, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		shown, err := show(v)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		c.render(w, r, shown)
	}
}

// act serves a change: where it goes through, the visitor goes on to an address.
func (c *Console) act(do func(*visit) (next string, err error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, _ := r.Context().Value(visitKey{}).(*visit)
		next, err := do(v)
		if err != nil {
			c.fail(w, r, err)
			return
		}
		http.Redirect(w, r, next, http.StatusSeeOther)
	}
}

func (c *Console) render(w http.ResponseWriter, r *http.Request, shown screen) {
	in := view{
		Title: shown.Title, Root: Base, Base: Base, Path: r.URL.Path, Query: r.URL.Query(), Data: shown.Data, Said: said[r.URL.Query().Get("done")],
		Operators: c.operators != nil,
	}
	if v, _ := r.Context().Value(visitKey{}).(*visit); v != nil {
		in.Bound = v.session.Role == ForAuditor && v.session.Organization != uuid.Nil
		in.session, in.Who, in.Name, in.Organization, in.Base = v.session, v.session.Role, v.session.shown(), v.name, v.base
	}
	var body bytes.Buffer
	if err := c.pages.write(&body, shown.Template, "frame.html", in); err != nil {
		c.Log.ErrorContext(r.Context(), "a page could not be made", "template", shown.Template, "error", err)
		http.Error(w, notMade, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if shown.Status != 0 {
		w.WriteHeader(shown.Status)
	}
	_, _ = w.Write(body.Bytes()) // whoever has gone away has no use for an error
}

// trouble is what the page of a failure says.
type trouble struct {
	What, Advice string
	RequestID    uuid.UUID
}

// fail shows a failure in the words of the API.
func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	failure := wire.FailureOf(err)
	wire.NoteFailure(r.Context(), failure)
	shown := screen{Title: failedTitle, Template: "trouble", Status: failure.Status()}
	t := trouble{What: upperFirst(failure.Error()), RequestID: wire.RequestIDOf(r.Context())}
	switch failure.Kind {
	case wire.NotFound:
		shown.Title, t.What, t.Advice = notFoundTitle, notFoundText, notFoundAdvice
	case wire.Internal:
		t.What, t.Advice = brokenText, brokenAdvice
		c.Log.ErrorContext(r.Context(), "a page failed", "error", err)
	case wire.Forbidden:
		shown.Title, t.Advice = forbiddenTitle, forbiddenAdvice
	case wire.Unavailable:
		t.Advice = unavailableAdvice
	default:
		t.Advice = failedAdvice
	}
	shown.Data = t
	c.render(w, r, shown)
}

func noSuchPage(*visit) (screen, error) { return screen{}, query.ErrNotFound }

// signedIn lets those through who are signed in. Others sign in first, and come back to where they wanted to go.
func (c *Console) signedIn(next http.Handler) http.Handler {
	return wire.RequireTLS(c.TrustedProxies, surface)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := c.sessionOf(r)
		switch {
		case errors.Is(err, query.ErrNotFound) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			noteStranger(r)
			http.Redirect(w, r, toSignIn(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, query.ErrNotFound):
			noteStranger(r)
			c.keep(w, r)
		case err != nil:
			c.fail(w, r, err)
		default:
			wire.Note(r.Context(), slog.String("organization", session.Organization.String()), slog.String("session", session.Actor()))
			leave, err := c.admit(r, session)
			if err != nil {
				c.fail(w, r, err)
				return
			}
			defer leave()
			if err := permitted(session, r); err != nil {
				c.fail(w, r, err)
				return
			}
			known := visit{session: session, base: Base}
			if session.Role == ForOrganization {
				known.shown, known.name = session.Organization, session.Name
			}
			if cookie, err := r.Cookie(c.cookie); err == nil {
				known.sessionName = sessionName(hashOf(cookie.Value))
			}
			c.serve(w, r, known, next)
		}
	}))
}

// noteStranger says that nobody is signed in: of such requests the log gets a few.
func noteStranger(r *http.Request) {
	wire.NoteFailure(r.Context(), &wire.Failure{Kind: wire.Unauthenticated, Issue: "nobody is signed in"})
}

// admit lets a request of an organization's people in, as those of its keys are. What follows along is under way for as long
// as somebody looks, and bounded elsewhere.
func (c *Console) admit(r *http.Request, session Session) (leave func(), err error) {
	if session.Role != ForOrganization || r.URL.Path == Base+livePath {
		return func() {}, nil
	}
	return c.Admit(r, session.Organization, session.Requests)
}

// toSignIn is the address of the sign-in that leads back to where somebody wanted to go.
func toSignIn(back string) string {
	if next := whereTo(back); next != Base+"/" {
		return Base + "/sign-in?" + url.Values{"next": {next}}.Encode()
	}
	return Base + "/sign-in"
}

// kept is what somebody has sent whose sign-in has ended.
type kept struct {
	SignIn string // its address
	Fields []field
}

type field struct{ Name, Value string }

// keep answers what was sent after the end of a session: it is not done. What was typed stays with whoever typed it, in a form
// of the page that says so; nothing of it is kept here.
func (c *Console) keep(w http.ResponseWriter, r *http.Request) {
	back := ""
	if from, err := url.Parse(r.Referer()); err == nil && from.Host == r.Host {
		back = from.RequestURI()
	}
	shown := kept{SignIn: toSignIn(back)}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		c.fail(w, r, wire.Fail(wire.Invalid, "form", "can't be read"))
		return
	}
	for _, name := range slices.Sorted(maps.Keys(r.PostForm)) {
		for _, value := range r.PostForm[name] {
			shown.Fields = append(shown.Fields, field{name, value})
		}
	}
	wire.NoteFailure(r.Context(), &wire.Failure{Kind: wire.Unauthenticated, Issue: signedOut})
	c.render(w, r, screen{Title: signedOutTitle, Template: "kept", Data: shown, Status: http.StatusUnauthorized})
}

// serve goes on with what is known of a visit.
func (c *Console) serve(w http.ResponseWriter, r *http.Request, known visit, next http.Handler) {
	v := &known
	v.Request = r.WithContext(context.WithValue(r.Context(), visitKey{}, v))
	next.ServeHTTP(w, v.Request)
}

func upperFirst(s string) string {
	if s == "" {
		return s
	}
	return strings.ToUpper(s[:1]) + s[1:]
}
