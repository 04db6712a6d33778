package wire_test

import (
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
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

// Where there is no more room, what came last stays: nobody is let off because others came.
func TestHostileAddressesClearNoLimit(t *testing.T) {
	t.Parallel()
	askers, now := wire.NewAskers(), time.Now()
	guesser := netip.MustParseAddr("192.0.2.1")
	var refused error
	for refused == nil {
		refused = askers.Take(guesser, now, "keys")
	}
	for i := range 25_000 { // more than there is room for
		other := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if err := askers.Take(other, now, "keys"); err != nil {
			t.Fatal(err)
		}
		if i%1000 == 0 && askers.Take(guesser, now, "keys") == nil {
			t.Fatalf("after %d others it is let off", i)
		}
	}
	if askers.Take(guesser, now, "keys") == nil {
		t.Error("it is let off")
	}
}
