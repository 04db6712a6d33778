package httpapi_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
)

// BenchmarkOverhead is what the API costs a request that asks nothing of Postgres: middleware, key, routing, envelope.
func BenchmarkOverhead(b *testing.B) {
	parts := apitest.Start(b)
	api, err := httpapi.New(httpapi.Dependencies{
		Commands: parts.Commands, Queries: parts.Queries, Keys: parts.Queries, Await: parts.Progress.Await, Now: time.Now,
		Log: slog.New(slog.DiscardHandler), Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		b.Fatal(err)
	}
	_, key := parts.Organization(b, "Town hall")
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
