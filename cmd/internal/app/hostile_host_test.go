package app_test

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"carillon/eventstore/storetest/must"
)

// TestHostileNamesReachNothing: a page whose name was made to lead to this machine (DNS rebinding) reads nothing of the
// admin listener, routes without a token and the operators' console included.
func TestHostileNamesReachNothing(t *testing.T) {
	p := shared(t)
	hosts := map[string]bool{
		"127.0.0.1:8081": true, "127.0.0.1": true, "[::1]:8081": true, "192.0.2.7:8081": true, "localhost:8081": true,
		"LOCALHOST":      true,
		"admin.internal": true, "Admin.Internal.:8081": true,
		"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"admin.internal.evil.example": false, "notlocalhost": false,
	}
	for _, path := range []string{"/", "/healthz", "/readyz", "/metrics", "/console", "/console/signin",
		"/admin/organizations", "/debug/pprof/heap", "/nowhere"} {
		for host, may := range hosts {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+p.app.AdminAddr().String()+path,
				http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			request.Host = host
			response, err := http.DefaultTransport.RoundTrip(request)
			must.OK(t, err)
			body, err := io.ReadAll(response.Body)
			_ = response.Body.Close()
			must.OK(t, err)
			if refused := response.StatusCode == http.StatusMisdirectedRequest; refused == may ||
				refused && !strings.Contains(string(body), "CARILLON_ADMIN_HOSTS") {
				t.Errorf("GET %s of %q: %d %.200s", path, host, response.StatusCode, body)
			}
		}
	}
}
