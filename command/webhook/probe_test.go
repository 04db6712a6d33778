package webhook

import (
	"net/http"
	"testing"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
)

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 302, 404, 405, 410, 500, 503} {
		e := startEndpoint(t, status(code))
		got := e.sender(t, loopback, Options{Version: "9"}).Probe(t.Context(), nil, e.URL+"/hook")
		if got.ResponseTime <= 0 {
			t.Errorf("%d: no time: %+v", code, got)
		}
		if want := (Reachability{Reachable: true, StatusCode: code, ResponseTime: got.ResponseTime}); got != want {
			t.Errorf("%d: %+v", code, got)
		}
		request := e.requests()[0]
		if request.method != http.MethodHead || len(request.body) != 0 || request.header.Get("User-Agent") != "Carillon/9" ||
			request.header.Get("Webhook-Signature") != "" {
			t.Errorf("sent %+v", request)
		}
	}
}

func TestProbeIsGuarded(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, status(200))
	got := e.sender(t, egress.Policy{}, Options{}).Probe(t.Context(), nil, e.URL)
	if got.Reachable || got.FailureReason != delivery.FailureBlocked ||
		len(e.requests()) != 0 || e.connections.Load() != 0 {
		t.Errorf("got %+v", got)
	}
	if ms := (Reachability{ResponseTime: 1999 * time.Microsecond}).ResponseTimeMs(); ms != 1 {
		t.Errorf("%d ms", ms)
	}
}
