package adminapi_test

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adminapi"
)

// When few connections are left, health and metrics are answered, and others are asked to come again.
func TestCrowded_leavesRoomForHealth(t *testing.T) {
	t.Parallel()
	api := adminapi.New(adminapi.Dependencies{
		Ready:   func(context.Context) map[string]error { return nil },
		Metrics: prometheus.NewRegistry(),
		Now:     time.Now,
		Log:     slog.New(slog.DiscardHandler),
		Crowded: func() bool { return true },
	})
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/admin/organizations": 503} {
		w := httptest.NewRecorder()
		api.ServeHTTP(w, httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, http.NoBody))
		if again := w.Header().Get("Retry-After"); w.Code != want || (want == 503) != (again == "1") {
			t.Errorf("%s: answered %d, again after %q", path, w.Code, again)
		}
	}
}
