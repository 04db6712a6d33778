package wire_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/wire"
)

// Whoever sends thousands of requests without a key fills no disk.
func TestHostileRequestsFillNoLog(t *testing.T) {
	t.Parallel()
	surface := func(*http.Request) wire.Surface { return wire.Feeds }
	for path, refusing := range map[string]http.Handler{
		"/feeds/events": wire.RequireTLS(nil, surface)(http.NotFoundHandler()),
		"/":             wire.NothingAtRoot(surface)(http.NotFoundHandler()),
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines strings.Builder
			handler := wire.RequestID(wire.AccessLog(slog.New(slog.NewTextHandler(&lines, nil)), func(string, string, int, time.Duration) {})(refusing))
			for range 2 {
				for range 1000 {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
				}
				time.Sleep(time.Second) // of the bubble's clock
			}
			if n := strings.Count(lines.String(), "msg=request"); n != 100 {
				t.Errorf("%s: %d lines, want 50 of each second", path, n)
			}
			if !strings.Contains(lines.String(), "leftOut=950") {
				t.Errorf("%s: what was left out is not counted", path)
			}
		})
	}
}
