package contract

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// What the document does not describe is found.
func TestDeviationsAreFound(t *testing.T) {
	t.Parallel()
	const good = `{"success":true,"data":[]}`
	tests := map[string]struct {
		path   string
		status int
		media  string
		body   string
		fine   bool
	}{
		"as described":     {"/feeds/events", 200, "application/json", good, true},
		"an error":         {"/feeds/events", 401, "application/json", `{"success":false,"error":{"code":"UNAUTHORIZED","message":"x"}}`, true},
		"no route":         {"/nowhere", 404, "application/json", `{"success":false,"error":{"code":"NOT_FOUND","message":"x"}}`, true},
		"another status":   {"/feeds/events", 418, "application/json", good, false},
		"another type":     {"/feeds/events", 200, "text/plain", good, false},
		"more members":     {"/feeds/events", 200, "application/json", `{"success":true,"data":[],"more":1}`, false},
		"fewer members":    {"/feeds/events", 200, "application/json", `{"success":true}`, false},
		"another shape":    {"/feeds/events", 200, "application/json", `{"success":true,"data":[{"id":7}]}`, false},
		"an unknown code":  {"/feeds/events", 401, "application/json", `{"success":false,"error":{"code":"NOPE","message":"x"}}`, false},
		"the other's code": {"/events/nowhere", 404, "application/json", `{"success":false,"error":{"code":"FORBIDDEN","message":"x"}}`, false},
		"no envelope":      {"/nowhere", 404, "application/json", `"not found"`, false},
		"no JSON":          {"/nowhere", 404, "text/plain", `404`, false},
	}
	for name, tt := range tests {
		recorded := httptest.NewRecorder()
		recorded.Header().Set("Content-Type", tt.media)
		recorded.WriteHeader(tt.status)
		_, _ = recorded.WriteString(tt.body)
		err := check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil), recorded)
		if (err == nil) != tt.fine {
			t.Errorf("%s: %v", name, err)
		}
	}
}
