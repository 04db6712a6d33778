package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestHostileNamesReachNothing: a page whose name was made to lead to this machine (DNS rebinding) reads nothing of the
// admin listener, that which needs no token included.
func TestHostileNamesReachNothing(t *testing.T) {
	t.Parallel()
	s := serve(t)
	hosts := map[string]bool{
		"127.0.0.1:8081": true, "127.0.0.1": true, "[::1]:8081": true, "192.0.2.7:8081": true, "localhost:8081": true, "LOCALHOST": true,
		"": true, "admin.internal": true, "Admin.Internal.:8081": true,
		"evil.example": false, "evil.example:8081": false, "localhost.evil.example": false, "127.0.0.1.evil.example": false,
		"admin.internal.evil.example": false, "localhost:8081:evil.example": false, "notlocalhost": false, "127.0.0.1@evil.example": false,
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/admin/organizations", "/debug/pprof/heap", "/nowhere"} {
		for host, may := range hosts {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, path, nil)
			r.Host = host
			r.Header.Set("Authorization", "Bearer "+token)
			got := s.send(r)
			if !may {
				got.refused(t, http.StatusMisdirectedRequest, "MISDIRECTED", "CARILLON_ADMIN_HOSTS")
			} else if got.status == http.StatusMisdirectedRequest {
				t.Errorf("%s of %q is refused: %s", path, host, got.body)
			}
		}
	}
}
