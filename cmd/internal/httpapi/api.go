// Package httpapi is the API that organizations use: event feeds under /feeds, webhooks under /events, the OpenAPI
// document and its playground.
//
// Each resource has one file with its routes and their handlers, in the same order, and below them its JSON shapes
// (destinations have so many that those stand in destination_json.go). A handler reads the request (package wire),
// calls one command or query, waits until the read models show the change, and returns the reply; it never writes an
// answer itself. The key is checked before a route is looked up and before a body is read, so that a caller without one
// learns nothing else.
package httpapi

import (
	"context"
	"log/slog"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/facts"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/query"
)

const (
	usualPage = 50 // items of a page of the lists under /events if the caller names no limit
	mostPage  = 100
)

// Dependencies holds the dependencies of the API. All fields are required, but for TrustedProxies and
// those that say so.
type Dependencies struct {
	Commands *command.Commands
	Queries  *query.Queries
	wire.Readers
	// Keys finds API keys, on connections that nothing else takes.
	Keys Keys
	// Uses records each use of a key. Optional.
	Uses Uses
	// Rate bounds the requests of each organization, over all nodes. nil: nothing does.
	Rate Counter
	// Writes bounds the requests of each organization that change something, over all nodes. nil: nothing does.
	Writes Counter
	// Refused counts refusals of the requests and bodies of an organization that are too many at a time. Optional.
	Refused func(organization.Limit)
	// Limiter bounds the requests to validate and test of one organization, over all nodes.
	Limiter Limiter
	// Relay brings webhooks to those who listen.
	Relay Relay
	// Ending returns a context that ends when the process begins to stop. Optional.
	Ending func() context.Context
	// Trace makes a span for each request with a key. Optional.
	Trace func(http.Handler) http.Handler
	// Tester sends test events.
	Tester         sending.Tester
	Now            func() time.Time
	Log            *slog.Logger
	Metrics        prometheus.Registerer
	TrustedProxies []netip.Prefix
}

// Limiter counts requests; adapters.Limiter is one. A refused request gets a command.Refusal of kind RateLimited; if
// the counters can't be reached, the error wraps command.ErrUnavailable.
type Limiter interface {
	Take(ctx context.Context, organization uuid.UUID) error
}

// Uses keeps when credentials were used last; adapters.CredentialUses is one.
type Uses interface {
	Used(credential string, at time.Time)
}

// Counter counts requests; adapters.Ahead is one. Beyond the limit it returns an *organization.LimitError, and the time
// until the next one is allowed. With other errors, the request passes.
type Counter interface {
	Take(ctx context.Context, organization uuid.UUID) (wait time.Duration, err error)
}

// Keys finds those of many keys that are valid at a time; query.Queries is one.
type Keys interface {
	FindKeys(ctx context.Context, ids []string, now time.Time) ([]query.Key, error)
}

// API is an http.Handler.
type API struct {
	Dependencies
	keys   *keyring
	turns  turns
	router chi.Router

	tooLarge chi.Router // answers requests whose header is too large
	onBehalf chi.Router
}

// New makes the API. It fails if the OpenAPI document or the playground can't be assembled, or the metrics are
// registered already.
func New(deps Dependencies) (*API, error) {
	a := &API{
		Dependencies: deps,
		keys:         newKeyring(deps.Keys, deps.Now),
		turns:        turns{all: map[uuid.UUID]*organizationTurns{}, refused: deps.Refused},
	}
	requests := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_http_request_seconds", Help: "Answered API requests by route, method and status.",
		Buckets: []float64{.0005, .001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"method", "route", "status"})
	if err := deps.Metrics.Register(requests); err != nil {
		return nil, err
	}
	observe := func(method, pattern string, status int, took time.Duration) {
		requests.WithLabelValues(wire.MethodLabel(method), pattern, strconv.Itoa(status)).Observe(took.Seconds())
	}
	document, err := OpenAPI()
	if err != nil {
		return nil, err
	}
	usual := chi.Middlewares{
		wire.Pace, wire.RequestID, wire.AccessLog(deps.Log, observe), wire.Recover(surfaceOf), wire.HeadAsGet,
	}
	a.tooLarge = chi.NewRouter()
	a.tooLarge.Use(usual...)
	a.tooLarge.Mount("/", a.guard(wire.HeaderTooLarge(surfaceOf)))
	a.onBehalf = chi.NewRouter()
	in := routesFor(a.onBehalf, a.onBehalf)
	a.destinationReads(in)
	a.deliveryRoutes(in)
	a.eventRoutes(in)
	a.router = chi.NewRouter()
	a.router.Use(usual...)
	docsRoutes(a.router, document)
	a.router.Get("/healthz", a.health)
	// A method that the router does not know at all never gets as far as the protected routes.
	a.router.MethodNotAllowed(a.guard(wire.WrongMethod(surfaceOf)).ServeHTTP)
	a.router.Mount("/", a.protected())
	return a, nil
}

// protected are the routes that need a key, and everything that is no route.
func (a *API) protected() chi.Router {
	r := chi.NewRouter()
	r.Use(a.guard)
	if a.Trace != nil {
		r.Use(a.Trace)
	}
	r.NotFound(wire.NoRoute(surfaceOf))
	r.MethodNotAllowed(wire.WrongMethod(surfaceOf))
	in := routesFor(r, r.With(a.countWrites))
	a.feedRoutes(in)
	a.feedSourceRoutes(in)
	a.itemRoutes(in)
	a.destinationRoutes(in)
	a.secretRoutes(in)
	a.subscriptionRoutes(in)
	a.deliveryRoutes(in)
	a.listenRoutes(in)
	a.eventRoutes(in)
	a.metricRoutes(in)
	a.catalogRoutes(in)
	a.keyRoutes(in)
	return r
}

// guard lets only authenticated requests through, and none whose key could have been overheard.
func (a *API) guard(next http.Handler) http.Handler {
	return wire.RequireTLS(a.TrustedProxies, surfaceOf)(wire.NothingAtRoot(surfaceOf)(a.authenticate(a.inTurn(next))))
}

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// TooLarge answers requests whose header is too large.
func (a *API) TooLarge() http.Handler { return a.tooLarge }

// Routes lists the routes.
func (a *API) Routes() chi.Routes { return a.router }

// surfaceOf chooses the error codes by path: those of /events there, those of the feeds elsewhere.
func surfaceOf(r *http.Request) wire.Surface {
	if r.URL.Path == "/events" || strings.HasPrefix(r.URL.Path, "/events/") {
		return wire.Events
	}
	return wire.Feeds
}

// awaitRouting is See for a change of where events go: it also waits for the dispatcher and the deliverers, so that
// events published, and requests begun, after the answer follow the change.
func (a *API) awaitRouting(ctx context.Context, to eventstore.Position, consumers ...string) bool {
	return a.See(ctx, to, append(consumers, dispatching.Name, facts.Name)...)
}
