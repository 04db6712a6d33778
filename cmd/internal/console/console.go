package console

import (
	"context"
	"embed"
	"html/template"
	"io/fs"
	"log/slog"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/query"
)

// Base is the path of all pages.
const Base = "/console"

// Dependencies are the parts of the console. All fields except TrustedProxies and Theme are required.
type Dependencies struct {
	Commands *command.Commands
	Queries  *query.Queries
	wire.Readers
	Sessions Sessions
	Works    Works
	// Verify returns the organization of an API key, or query.ErrNotFound if it is not valid; see httpapi.API.
	Verify func(r *http.Request, key string) (query.Key, error)
	// Admit admits a request of an organization, or refuses it if the limit is exceeded; see httpapi.API.
	Admit func(r *http.Request, organization uuid.UUID) (leave func(), err error)
	// Policy says when failing destinations are disabled.
	Policy autodisable.Policy
	// Limiter bounds the requests to validate and test of one organization, together with the API.
	Limiter httpapi.Limiter
	// LoginLimiter bounds the failed sign-ins of one address.
	LoginLimiter *wire.AddressLimiter
	Tester       sending.Tester
	// Collectors are the collectors for trials of sources, by type. They use the address guard and the pace of hosts.
	Collectors map[string]collect.Collector
	Theme      Theme // Optional.
	// Origins may show the console of organizations in a frame. Optional.
	Origins        []string
	Version        string // of the program
	Now            func() time.Time
	Log            *slog.Logger
	TrustedProxies []netip.Prefix
}

//go:embed static
var static embed.FS

// Console is an http.Handler.
type Console struct {
	Dependencies
	operators *Operators // nil on the organizations' console
	cookie    string
	trials    trials
	pages     *template.Template
	router    chi.Router
	workers   workers
	visitors  *wire.Credentials
}

// New returns the console of organizations, for the listener of the API.
func New(deps Dependencies) (*Console, error) {
	return assemble(&Console{Dependencies: deps, cookie: cookieName})
}

// NewForOperators returns the console of operators and auditors, for the listener of the admin API.
func NewForOperators(deps Dependencies, operators Operators) (*Console, error) {
	return assemble(&Console{
		Dependencies: deps,
		operators:    &operators,
		cookie:       operatorsCookieName,
	})
}

func assemble(c *Console) (*Console, error) {
	c.visitors = wire.NewCredentials("sessions", query.ErrNotFound)
	assets, err := fs.Sub(static, "static")
	if err != nil {
		return nil, err
	}
	if c.pages, err = parsePages(); err != nil {
		return nil, err
	}
	unobserved := func(string, string, int, time.Duration) {}
	c.router = chi.NewRouter()
	c.router.Use(wire.RequestID, wire.AccessLog(c.Log, unobserved), wire.Recover(surface), wire.HeadAsGet,
		c.headers, c.sameOrigin)
	c.router.Route(Base, func(r chi.Router) {
		r.Handle("/static/*", http.StripPrefix(Base+"/static/", http.FileServerFS(assets)))
		c.themeRoutes(r)
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

// Run works on requests for many deliveries until the context ends.
func (c *Console) Run(ctx context.Context) {
	c.workers.open(ctx)
	<-ctx.Done()
	c.workers.running.Wait()
}

// organizationRoutes adds the pages of one organization, for its people and for operators. Their addresses begin with
// visit.base, and with .Base in templates.
func (c *Console) organizationRoutes(r chi.Router) {
	r.Get("/", c.page(c.overview))
	c.destinationRoutes(r)
	c.settingsRoutes(r)
	c.secretRoutes(r)
	c.subscriptionRoutes(r)
	c.startRoutes(r)
	c.searchRoutes(r)
	r.Get("/activity", c.page(c.listActivity))
	c.deliveryRoutes(r)
	c.allDeliveryRoutes(r)
	c.eventRoutes(r)
	c.feedRoutes(r)
	c.workRoutes(r)
}

// baseOf returns visit.base for the pages of an organization.
func (c *Console) baseOf(organization uuid.UUID) string {
	if c.operators == nil {
		return Base
	}
	return Base + "/organizations/" + organization.String()
}

// Beside serves the console and an API on one listener. A request for / is redirected here if it accepts HTML; other
// clients get the API's 404.
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

// policy allows only content of the console itself; frame-ancestors are added.
const policy = "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors "

// framed reports whether pages may be shown in frames of other sites: never those of operators.
func (c *Console) framed() bool { return len(c.Origins) > 0 && c.operators == nil }

func (c *Console) headers(next http.Handler) http.Handler {
	ancestors := "'none'"
	if c.framed() {
		ancestors = strings.Join(c.Origins, " ")
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		header := w.Header()
		header.Set("Content-Security-Policy", policy+ancestors)
		header.Set("X-Content-Type-Options", "nosniff")
		header.Set("Referrer-Policy", "same-origin")
		header.Set("Cache-Control", "no-store")
		next.ServeHTTP(w, r)
	})
}

// sameOrigin refuses changes from pages of another origin.
func (c *Console) sameOrigin(next http.Handler) http.Handler {
	protection := http.NewCrossOriginProtection()
	protection.SetDenyHandler(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		c.fail(w, r, &wire.Failure{Kind: wire.Invalid, Issue: notOfThisConsole})
	}))
	return protection.Handler(next)
}

// changed returns the page to show after a change that was recorded at a position, once it can show it, or its refusal.
func (c *Console) changed(
	v *visit, to eventstore.Position, refused error, next string, consumers ...string,
) (string, error) {
	if refused != nil {
		return "", refused
	}
	c.See(v.Context(), to, consumers...)
	return next, nil
}
