package httpapi_test

import (
	"cmp"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/tracing"
	"carillon/cmd/internal/wire"
)

// BenchmarkOverhead measures the API's cost of a request without queries: middleware, key, routing, envelope. Tracing
// is off, samples nothing, or samples everything for a collector that is down.
func BenchmarkOverhead(b *testing.B) {
	parts := apitest.Start(b)
	_, key := parts.Organization(b, "Town hall")
	for _, sampler := range []string{"", "always_off", "always_on"} {
		b.Run("sampler="+cmp.Or(sampler, "none"), func(b *testing.B) {
			deps := httpapi.Dependencies{
				Commands: parts.Commands,
				Queries:  parts.Queries,
				Keys:     parts.Queries,
				Readers:  wire.Readers{Await: parts.Progress.Await},
				Now:      time.Now,
				Log:      slog.New(slog.DiscardHandler),
				Metrics:  prometheus.NewRegistry(),
			}
			if sampler != "" {
				b.Setenv("OTEL_TRACES_SAMPLER", sampler)
				b.Setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1")
				traces, err := tracing.Open(b.Context(), "test", deps.Log)
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(traces.Close)
				deps.Trace = traces.Requests
			}
			api, err := httpapi.New(deps)
			if err != nil {
				b.Fatal(err)
			}
			benchmarkRequest(b, api, key)
		})
	}
}

func benchmarkRequest(b *testing.B, api http.Handler, key string) {
	b.Helper()
	r := httptest.NewRequestWithContext(b.Context(), http.MethodGet, "/events/deliveries/7", nil)
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Authorization", "Bearer "+key)
	b.ReportAllocs()
	for b.Loop() {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, r)
		if w.Code != http.StatusBadRequest {
			b.Fatal(w.Code)
		}
	}
}
