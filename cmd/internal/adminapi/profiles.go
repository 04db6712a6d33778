package adminapi

import (
	"net/http"
	"net/http/pprof"
	runtime "runtime/pprof"

	"github.com/go-chi/chi/v5"

	"carillon/cmd/internal/wire"
)

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
