package console

import (
	"bytes"
	"context"
	"errors"
	"io"
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

// visit is a request of a signed-in visitor.
type visit struct {
	*http.Request

	session Session
	shown   uuid.UUID // shown is the organization whose pages are shown. uuid.Nil if none in particular.
	name    string    // of that organization
	base    string    // the path of its pages
	reason  string    // of the change, for auditors
}

// organization returns the organization whose pages the visitor sees.
func (v *visit) organization() uuid.UUID { return v.shown }

// to returns the address of a page of that organization.
func (v *visit) to(page string) string { return v.base + page }

// caller returns the actor.
func (v *visit) caller() command.Caller {
	return command.Caller{
		Organization: v.shown,
		Actor:        v.session.Actor(),
		RequestID:    wire.RequestIDOf(v.Context()),
		ReadsSecrets: v.session.May(organization.ScopeSecrets),
		Reason:       v.reason,
	}
}

// wordParameters are the parameters of paths that are not ids.
var wordParameters = []string{"change", "kind", "name", "*"}

// checkIDs refuses a path with an id that is none.
func (v *visit) checkIDs() error {
	parameters := chi.RouteContext(v.Context()).URLParams
	for i, name := range parameters.Keys {
		_, ok := wire.ParseUUID(parameters.Values[i])
		if !ok && !slices.Contains(wordParameters, name) {
			return query.ErrNotFound
		}
	}
	return nil
}

// id returns an id of the path, which checkIDs has checked.
func (v *visit) id(name string) uuid.UUID {
	id, _ := wire.ParseUUID(chi.URLParam(v.Request, name))
	return id
}

// screen is a page to show.
type screen struct {
	Title    string
	Template string // of templates, without its ending
	Data     any
	Status   int // 0 means 200
}

// view is the data of a template.
type view struct {
	Title        string
	Root         string // the path of the console
	Base         string // the path of the pages of the shown organization
	Path         string // of the page
	Query        url.Values
	Who          Role   // empty if not signed in
	Operators    bool   // whether this is the operators' and auditors' console
	Bound        bool   // whether the visitor sees the audit trail of one organization only
	Name         string // of the visitor
	Organization string // of the shown organization; empty if none in particular
	Said         string // the result of the change that led here
	Reason       string // as typed
	Theme        Theme
	Version      string // of the program
	session      Session
	Data         any
}

// Here reports whether the page is a navigation's entry, or one below it.
func (v view) Here(entry string) bool {
	return v.Path == entry || !strings.HasSuffix(entry, "/") && strings.HasPrefix(v.Path, entry+"/")
}

// reasonField is the field of a form that says why something is changed.
const reasonField = "why"

type visitKey struct{}

// visitOf returns the visit that a request belongs to; nil if its visitor is not signed in.
func visitOf(r *http.Request) *visit {
	v, _ := r.Context().Value(visitKey{}).(*visit)
	return v
}

// handle serves a visit. It shows a failure as a page.
func (c *Console) handle(serve func(http.ResponseWriter, *visit) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v := visitOf(r)
		err := v.checkIDs()
		if err == nil {
			err = serve(w, v)
		}
		if err != nil {
			c.fail(w, r, err)
		}
	}
}

// page serves the page that a handler returns.
func (c *Console) page(show func(*visit) (screen, error)) http.HandlerFunc {
	return c.handle(func(w http.ResponseWriter, v *visit) error {
		shown, err := show(v)
		if err == nil {
			c.render(w, v.Request, shown)
		}
		return err
	})
}

// act serves a change, and redirects to an address if it succeeds.
func (c *Console) act(do func(*visit) (next string, err error)) http.HandlerFunc {
	return c.handle(func(w http.ResponseWriter, v *visit) error {
		next, err := do(v)
		if err == nil {
			http.Redirect(w, v.Request, next, http.StatusSeeOther)
		}
		return err
	})
}

func (c *Console) render(w http.ResponseWriter, r *http.Request, shown screen) {
	in := view{
		Title:     shown.Title,
		Root:      Base,
		Base:      Base,
		Path:      r.URL.Path,
		Query:     r.URL.Query(),
		Data:      shown.Data,
		Said:      said[r.URL.Query().Get("done")],
		Operators: c.operators != nil,
		Theme:     c.Theme.shown(),
		Version:   c.Version,
	}
	if v := visitOf(r); v != nil {
		in.Bound = v.session.Role == ForAuditor && v.session.Organization != uuid.Nil
		in.Reason = v.reason
		in.session, in.Who, in.Name, in.Organization, in.Base = v.session, v.session.Role, v.session.shown(), v.name, v.base
	}
	var body bytes.Buffer
	if err := c.pages.ExecuteTemplate(&body, shown.Template+".html", in); err != nil {
		c.Log.ErrorContext(r.Context(), "page not rendered", "template", shown.Template, "error", err)
		http.Error(w, notMade, http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	if shown.Status != 0 {
		w.WriteHeader(shown.Status)
	}
	_, _ = io.WriteString(w, shownPage(body.String())) // the visitor is gone
}

// trouble is the failure page.
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
		c.Log.ErrorContext(r.Context(), "page failed", "error", err)
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

// signedIn lets signed-in visitors pass. It redirects others to the sign-in page and then back to the requested
// address.
func (c *Console) signedIn(next http.Handler) http.Handler {
	return wire.RequireTLS(c.TrustedProxies, surface)(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		session, err := c.sessionOf(r)
		switch {
		case errors.Is(err, query.ErrNotFound) && (r.Method == http.MethodGet || r.Method == http.MethodHead):
			logUnknownVisitor(r)
			http.Redirect(w, r, toSignIn(r.URL.RequestURI()), http.StatusSeeOther)
		case errors.Is(err, query.ErrNotFound):
			logUnknownVisitor(r)
			c.keep(w, r)
		case err != nil:
			c.fail(w, r, err)
		default:
			wire.Note(r.Context(), slog.String("organization", session.Organization.String()), slog.String("session",
				session.Actor()))
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
			if known.reason, err = reasonOf(w, r); err != nil {
				c.fail(w, r, err)
				return
			}
			if session.Role == ForOrganization {
				known.shown, known.name = session.Organization, session.Name
			}
			c.serve(w, r, known, next)
		}
	}))
}

// reasonOf returns why a form was sent. All forms have the field.
func reasonOf(w http.ResponseWriter, r *http.Request) (string, error) {
	if r.Method != http.MethodPost {
		return "", nil
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	if err := r.ParseForm(); err != nil {
		return "", wire.Fail(wire.Invalid, "form", "can't be read")
	}
	reason := strings.TrimSpace(r.PostForm.Get(reasonField))
	return reason, command.CheckReason("reason", reason)
}

// logUnknownVisitor logs a sample of the requests without a session.
func logUnknownVisitor(r *http.Request) {
	wire.NoteFailure(r.Context(), &wire.Failure{Kind: wire.Unauthenticated, Issue: "no session"})
}

// admit admits a request of an organization's people, like one with its keys.
func (c *Console) admit(r *http.Request, session Session) (leave func(), err error) {
	if session.Role != ForOrganization {
		return func() {}, nil
	}
	return c.Admit(r, session.Organization)
}

// toSignIn returns the address of the sign-in page, which leads back to the requested address.
func toSignIn(back string) string {
	if next := safeRedirect(back); next != Base+"/" {
		return Base + "/sign-in?" + url.Values{"next": {next}}.Encode()
	}
	return Base + "/sign-in"
}

// unsentForm is a form that was sent after the end of its session.
type unsentForm struct {
	SignIn string // address of the sign-in page
	Fields []field
}

type field struct{ Name, Value string }

// keep answers a form that was sent after the end of its session, and does not execute it. The values typed are sent
// back in a form of the page; the server stores none of them.
func (c *Console) keep(w http.ResponseWriter, r *http.Request) {
	back := ""
	if from, err := url.Parse(r.Referer()); err == nil && from.Host == r.Host {
		back = from.RequestURI()
	}
	shown := unsentForm{SignIn: toSignIn(back)}
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
	c.render(w, r, screen{
		Title:    signedOutTitle,
		Template: "kept",
		Data:     shown,
		Status:   http.StatusUnauthorized,
	})
}

// serve continues with the visit.
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
