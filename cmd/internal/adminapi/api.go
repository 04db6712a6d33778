// Package adminapi is the operators' API, on a separate listener: organizations and keys, sources, feeds, publishing,
// projections, the audit trail, health and metrics. It speaks as the API's /events surface does (package wire), and
// takes the admin token or an operator's own as a bearer token; health and metrics need none. An auditor's token opens
// GET /admin/audit/… and GET /admin/projections; all other routes refuse it. The command line is a thin client of it.
package adminapi

import (
	"context"
	"crypto/sha256"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/query"
)

// Dependencies holds the dependencies of the admin API. All fields are required, but for TrustedProxies, Warnings and
// Ending.
type Dependencies struct {
	Commands *command.Commands
	Queries  *query.Queries
	wire.Readers
	Projections Projections
	// ConsoleLink makes a link that signs a person of an organization in at the console, once.
	ConsoleLink func(ctx context.Context, of ConsoleVisitor) (url string, expires time.Time, err error)
	// OnBehalf answers a request for an organization, as the API answers the organization itself. Its routes are those
	// of httpapi.OperatorRoutes.
	OnBehalf func(w http.ResponseWriter, r *http.Request, by command.Caller)
	// Crowded reports that the connections that are left are for health checks and metrics. Optional.
	Crowded func() bool
	// Ready reports for each dependency of the process whether it works now: nil means that it does.
	Ready func(ctx context.Context) map[string]error
	// Warnings returns the warnings of a ready process. Optional.
	Warnings func() []string
	// Ending ends when the process begins to stop. It may be nil: then nothing is cut short.
	Ending func() context.Context
	// Trace makes a span for each request of an operator. Optional.
	Trace func(http.Handler) http.Handler
	// Keys renews and rotates the keys that wrap data keys.
	Keys Keys
	// Seal signs tree heads of the log, and proves events by them.
	Seal Seal
	// Analysts keeps the logins of people who read the analysts' views.
	Analysts Analysts
	// Tokens finds tokens of operators and auditors. Default: Queries.
	Tokens Tokens
	// Uses records each use of a token.
	Uses           httpapi.Uses
	Metrics        prometheus.Gatherer
	Token          string // the admin token that is configured
	Now            func() time.Time
	Log            *slog.Logger
	TrustedProxies []netip.Prefix
}

const (
	readyTimeout = 3 * time.Second
	maxScrapes   = 8 // of the metrics at one time; each takes their whole text into memory
)

// Tokens finds those tokens that are valid at a time, or returns query.ErrNotFound; adapters.Proven is one.
type Tokens interface {
	Token(ctx context.Context, of query.Holder, id string, now time.Time) (query.Token, error)
}

// API is an http.Handler.
type API struct {
	Dependencies
	tokenHash [sha256.Size]byte
	tokens    *wire.Credentials
	router    chi.Router
	intake    *intake

	recordTail recordTail
}

// New makes the admin API.
func New(deps Dependencies) *API {
	a := &API{
		Dependencies: deps,
		tokenHash:    sha256.Sum256([]byte(deps.Token)),
		tokens:       wire.NewCredentials("tokens", query.ErrNotFound),
		router:       chi.NewRouter(),
		intake:       newIntake(),
	}
	if a.Tokens == nil {
		a.Tokens = deps.Queries
	}
	unobserved := func(string, string, int, time.Duration) {}
	a.router.Use(wire.Pace, wire.RequestID, wire.AccessLog(deps.Log, unobserved), wire.Recover(surface),
		wire.HeadAsGet)
	a.router.Get("/healthz", handle(alive))
	a.router.Get("/readyz", handle(a.ready))
	a.router.Method(http.MethodGet, "/metrics", promhttp.HandlerFor(deps.Metrics, promhttp.HandlerOpts{
		MaxRequestsInFlight: maxScrapes, ErrorLog: slog.NewLogLogger(deps.Log.Handler(), slog.LevelError),
	}))
	a.router.Get("/admin/openapi.json", document)
	a.router.MethodNotAllowed(a.guard(forOperators(wire.WrongMethod(surface))).ServeHTTP)
	a.router.Mount("/", a.protected())
	return a
}

// room refuses requests when the server has few connections left, so that its health can be asked for.
func (a *API) room(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if a.Crowded == nil || !a.Crowded() {
			next.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Connection", "close")
		wire.Events.WriteError(w, r, &wire.Failure{
			Kind:       wire.Unavailable,
			Issue:      "as many requests of operators are being answered as this server has connections for; try again",
			RetryAfter: time.Second,
		})
	})
}

func surface(*http.Request) wire.Surface { return wire.Events }

func (a *API) protected() chi.Router {
	router := chi.NewRouter()
	router.Use(a.room, a.guard)
	if a.Trace != nil {
		router.Use(a.Trace)
	}
	router.NotFound(forOperators(wire.NoRoute(surface)).ServeHTTP)
	router.MethodNotAllowed(forOperators(wire.WrongMethod(surface)).ServeHTTP)
	a.register(routesFor(router))
	return router
}

func (a *API) register(r routes) {
	a.organizationRoutes(r)
	a.onBehalfRoutes(r)
	a.consoleRoutes(r)
	a.limitRoutes(r)
	a.clientCertificateRoutes(r)
	a.sourceRoutes(r)
	a.happeningRoutes(r)
	a.feedRoutes(r)
	a.eventRoutes(r)
	a.projectionRoutes(r)
	a.keyRoutes(r)
	a.auditRoutes(r)
	a.sealRoutes(r)
	a.auditorRoutes(r)
	a.operatorRoutes(r)
	a.analystRoutes(r)
	a.profileRoutes(r)
}

// Routes lists the routes.
func (a *API) Routes() chi.Routes { return a.router }

// ServeHTTP implements http.Handler.
func (a *API) ServeHTTP(w http.ResponseWriter, r *http.Request) { a.router.ServeHTTP(w, r) }

// handle makes an http.Handler of a handler.
func handle(h wire.Handler) http.HandlerFunc { return wire.Events.Handle(h) }

// pathID, pathName and pathToken read the part of a path that says what a request is about.
func pathID(r *http.Request) (uuid.UUID, error) { return wire.PathUUID(r, "id", wire.BadParam) }

func pathName(r *http.Request) (string, error) { return wire.PathText(r, "name") }

func pathToken(r *http.Request) (string, error) { return wire.PathText(r, "id") }
