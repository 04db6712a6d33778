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
	"carillon/eventstore/storetest/assert"
)

// Thousands of requests without a key don't fill the disk.
func TestHostileRequestsFillNoLog(t *testing.T) {
	t.Parallel()
	surface := func(*http.Request) wire.Surface { return wire.Feeds }
	for path, refusing := range map[string]http.Handler{
		"/feeds/events": wire.RequireTLS(nil, surface)(http.NotFoundHandler()),
		"/":             wire.NothingAtRoot(surface)(http.NotFoundHandler()),
	} {
		synctest.Test(t, func(t *testing.T) {
			var lines strings.Builder
			handler := wire.RequestID(wire.AccessLog(slog.New(slog.NewTextHandler(&lines, nil)),
				func(string, string, int, time.Duration) {})(refusing))
			for range 2 {
				for range 1000 {
					handler.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, path, http.NoBody))
				}
				time.Sleep(time.Second) // of the bubble's clock
				synctest.Wait()
			}
			assert.Equal(t, strings.Count(lines.String(), "msg=request"), 101,
				"%s … lines, want 50 of each second and the last one held back", path)
			assert.Equal(t, strings.Contains(lines.String(), "leftOut=950"), true,
				"%s: omitted lines are not counted", path)
		})
	}
}

// If there is no more room, the newest addresses stay: other addresses clear no limit.
func TestHostileAddressesClearNoLimit(t *testing.T) {
	t.Parallel()
	limiter, now := wire.NewAddressLimiter(1000, 10*time.Second), time.Now()
	guesser := netip.MustParseAddr("192.0.2.1")
	for limiter.Take(guesser, now) {
	}
	for i := range 25_000 { // more than there is room for
		other := netip.AddrFrom4([4]byte{10, byte(i >> 16), byte(i >> 8), byte(i)})
		if !limiter.Take(other, now) {
			t.Fatal("another address is refused")
		}
		if i%1000 == 0 && limiter.Take(guesser, now) {
			t.Fatalf("after %d others it is let off", i)
		}
	}
	assert.Equal(t, limiter.Take(guesser, now), false, "it is let off")
}
