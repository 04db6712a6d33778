package adminapi

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/http"
	"net/http/pprof"
	runtime "runtime/pprof"
	"slices"
	"strings"
	"time"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/wire"
	"carillon/eventstore"
	"carillon/eventstore/reach"
)

// Health is the answer of /healthz and /readyz.
type Health struct {
	Status     string   `json:"status"` // "ok"
	Components []string `json:"components,omitempty"`
	Warnings   []string `json:"warnings,omitempty"` // of a server that is ready all the same
}

// alive answers GET /healthz as long as the process runs.
func alive(*http.Request) (wire.Reply, error) { return wire.OK(Health{Status: "ok"}), nil }

// Unready is a failed dependency as /readyz shows it, which needs no token.
type Unready string

// Error implements error.
func (u Unready) Error() string { return string(u) }

// reason is the part of a failure that the answer shows besides its name: only if waiting does not repair it, and it is
// no secret.
func reason(err error) string {
	if unready, ok := errors.AsType[Unready](err); ok {
		return " (" + unready.Error() + ")"
	}
	if errors.Is(err, eventstore.ErrRefused) {
		return " (refuses the credentials, or its certificate is not trusted)"
	}
	if lost, ok := errors.AsType[*reach.LostError](err); ok {
		return " (no answer since " + lost.Since.Format(time.RFC3339) + ")"
	}
	return ""
}

// ready answers GET /readyz: 200 if requests can be served, 503 with the names of unreachable dependencies. The reasons
// are mostly in the log only, because the route needs no token.
func (a *API) ready(r *http.Request) (wire.Reply, error) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	components := a.Ready(ctx)
	names := slices.Sorted(maps.Keys(components))
	var down []string
	var causes []error
	for _, name := range names {
		if err := components[name]; err != nil {
			down = append(down, name+reason(err))
			causes = append(causes, fmt.Errorf("%s: %w", name, err))
		}
	}
	if len(down) > 0 {
		wire.Note(r.Context(), slog.String("down", strings.Join(down, ", ")))
		return wire.Reply{}, &wire.Failure{
			Kind:  wire.Unavailable,
			Issue: "not ready: " + strings.Join(down, ", "),
			Cause: errors.Join(causes...),
		}
	}
	health := Health{Status: "ok", Components: names}
	if a.Warnings != nil {
		health.Warnings = a.Warnings()
	}
	return wire.OK(health), nil
}

// profileRoutes serves profiles for "go tool pprof". Those that show the command line are left out, because secrets may
// be in it.
func (a *API) profileRoutes(r routes) {
	r.operators.Get("/debug/pprof/profile", cpuProfile)
	r.operators.Get("/debug/pprof/trace", executionTrace)
	r.operators.Get("/debug/pprof/{profile}", profile)
}

// cpuProfile answers GET /debug/pprof/profile: the processor time of some seconds.
func cpuProfile(w http.ResponseWriter, r *http.Request) { pprof.Profile(w, r) }

// executionTrace answers GET /debug/pprof/trace.
func executionTrace(w http.ResponseWriter, r *http.Request) { pprof.Trace(w, r) }

// profile answers GET /debug/pprof/{profile}: heap, allocs, goroutine, mutex, block, threadcreate.
func profile(w http.ResponseWriter, r *http.Request) {
	name := chi.URLParam(r, "profile")
	if runtime.Lookup(name) == nil {
		wire.NoRoute(surface)(w, r)
		return
	}
	pprof.Handler(name).ServeHTTP(w, r)
}
