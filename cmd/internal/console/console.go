package console

import (
	"context"
	"embed"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/console/live"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/query"
)

// Base is the path of all pages.
const Base = "/console"

// awaitLimit bounds how long a change waits until it can be seen on the page that follows.
const awaitLimit = 2 * time.Second

// Dependencies is what the console is made of. All fields are required, but for TrustedProxies.
type Dependencies struct {
	Commands *command.Commands
	Queries  *query.Queries
	Sessions Sessions
	Works    Works
	// Verify tells whose API key a text is, or gives query.ErrNotFound of one that is not valid; httpapi.API has it.
	Verify func(r *http.Request, key string) (query.Key, error)
	// Admit lets a request of an organization in, or refuses one that is too many; httpapi.API has it.
	Admit func(r *http.Request, organization uuid.UUID, requests *int64) (leave func(), err error)
	// Await waits until the named consumers have applied the event at a position.
	Await func(ctx context.Context, to eventstore.Position, consumers ...string) bool
	// Settle waits until a read model shows all that is stored.
	Settle func(context.Context, projections.ReadModel) error
	// Events is read along for live parts.
	Events eventstore.Store
	// Limiter bounds the requests to validate and test of one organization; the API has the same.
	Limiter Limiter
	// Guesses bounds the failed sign-ins of one address.
	Guesses        *Guesses
	Tester         delivery.Tester
	Wake           func() // makes the deliverer of this process look for work at once
	Now            func() time.Time
	Log            *slog.Logger
	TrustedProxies []netip.Prefix
}

// Limiter counts requests; adapters.Limiter is one.
type Limiter interface {
	Take(ctx context.Context, organization uuid.UUID) error
}

//go:embed static
var static embed.FS

// Console is an http.Handler.
type Console struct {
	Dependencies
	operators *Operators // nil: this is the console of organizations
	cookie    string
	trials    chan struct{} // has room for as many as may go on
	pages     pages
	router    chi.Router
	live      live.Hub
	workers   workers
	visitors  visitors
}

// New makes the console of organizations, for the listener of the API.
func New(deps Dependencies) (*Console, error) {
	return assemble(&Console{Dependencies: deps, cookie: cookieName, visitors: newVisitors()})
}

// NewForOperators makes the console of operators and auditors, for the listener of the admin API.
func NewForOperators(deps Dependencies, operators Operators) (*Console, error) {
	return assemble(&Console{Dependencies: deps, operators: &operators, cookie: operatorsCookieName, visitors: newVisitors()})
}

func assemble(c *Console) (*Console, error) {
	assets, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	if c.pages, err = parsePages(); err != nil {
		return nil, err
	}
	unobserved := func(string, string, int, time.Duration) {}
	c.router, c.trials = chi.NewRouter(), make(chan struct{}, triedAtOnce)
	c.router.Use(wire.RequestID, wire.AccessLog(c.Log, unobserved), wire.Recover(c.Log, surface), wire.HeadAsGet, c.headers, c.sameOrigin)
	c.router.Route(Base, func(r chi.Router) {
		r.Handle("/static/*", http.StripPrefix(Base+"/static/", http.FileServerFS(assets)))
		c.signInRoutes(r)
		r.Group(func(r chi.Router) {
			r.Use(c.signedIn)
			r.NotFound(c.page(noSuchPage))
			if c.operators != nil {
				c.operatorRoutes(r)
				return
			}
			c.organizationRoutes(r)
		})
	})
	return c, nil
}

// organizationRoutes are the pages that show the things of one organization, to its people and to operators: their
// addresses begin with visit.base, and with .Base in templates.
func (c *Console) organizationRoutes(r chi.Router) {
	r.Get("/", c.page(c.overview))
	c.destinationRoutes(r)
	c.settingsRoutes(r)
	c.secretRoutes(r)
	c.deliveryRoutes(r)
	c.allDeliveryRoutes(r)
	c.eventRoutes(r)
	c.liveRoutes(r)
	c.feedRoutes(r)
	c.workRoutes(r)
}

// baseOf is visit.base for the pages of an organization.
func (c *Console) baseOf(organization uuid.UUID) string {
	if c.operators == nil {
		return Base
	}
	return Base + "/organizations/" + organization.String()
}

// Beside serves the console beside an API on one listener. A browser that asks for / is sent here; a program that does, and
// so does not name HTML among what it takes, gets the API's answer: there is nothing.
func (c *Console) Beside(api http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == Base:
			http.Redirect(w, r, Base+"/", http.StatusFound)
		case strings.HasPrefix(r.URL.Path, Base+"/"):
			c.ServeHTTP(w, r)
		case r.URL.Path == "/" && (r.Method == http.MethodGet || r.Method == http.MethodHead) && wire.Accepts(r, "text/html"):
			http.Redirect(w, r, Base+"/", http.StatusFound)
		default:
			api.ServeHTTP(w, r)
		}
	})
}

// ServeHTTP implements http.Handler.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) { c.router.ServeHTTP(w, r) }

func surface(*http.Request) wire.Surface { return wire.Events }

// policy lets nothing run or load that is not of the console itself, and nobody frame it.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (c *Console) headers(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses what would change something and comes from a page of another origin.
func (c *Console) sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &wire.Failure{Kind: wire.Invalid, Issue: notOfThisConsole})
	}))
	return protection.Handler(next)
}

// await waits until a change can be seen by the page that follows, or for awaitLimit.
func (c *Console) await(ctx context.Context, to eventstore.Position, consumers ...string) {
	ctx, cancel := context.WithTimeout(ctx, awaitLimit)
	defer cancel()
	if !c.Await(ctx, to, consumers...) {
		wire.Note(ctx, slog.Bool("notYetReadable", true))
	}
}
