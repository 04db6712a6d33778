package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// Profiles are for the admin token, and don't show the command line.
func TestProfilesAreForTheAdminToken(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var auditor struct {
		ID    string `json:"id"`
		Token string `json:"token"`
	}
	s.do(t, http.MethodPost, "/admin/auditors", `{"name":"Court of audit"}`).into(t, http.StatusCreated, &auditor)
	const gzip = "\x1f\x8b"
	for _, path := range []string{"heap", "allocs", "goroutine", "mutex", "block", "profile?seconds=1"} {
		if got := s.do(t, http.MethodGet, "/debug/pprof/"+path, ""); got.status != http.StatusOK ||
			!strings.HasPrefix(got.body, gzip) {
			t.Errorf("%s: %d, %d bytes that are no profile", path, got.status, len(got.body))
		}
		for _, token := range []string{"", "Bearer wrong", "Bearer " + auditor.Token} {
			r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/debug/pprof/"+path, nil)
			r.Header.Set("Authorization", token)
			s.send(r).refused(t, http.StatusUnauthorized, "AUTHENTICATION_FAILED", "admin token")
		}
	}
	if got := s.do(t, http.MethodGet, "/debug/pprof/goroutine?debug=1", ""); !strings.Contains(got.body,
		"TestProfilesAreForTheAdminToken") {
		t.Errorf("goroutines: %.200s", got.body)
	}
	for _, path := range []string{"/debug/pprof/cmdline", "/debug/pprof/", "/debug/pprof/nonsense"} {
		s.do(t, http.MethodGet, path, "").refused(t, http.StatusNotFound, "NOT_FOUND", "no such route")
	}
}
