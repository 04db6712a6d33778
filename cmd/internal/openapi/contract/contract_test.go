package contract

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var public = New(httpapi.OpenAPI, func(path string) string {
	if strings.HasPrefix(path, "/events/") {
		return "EventsError"
	}
	return "FeedsError"
})

func refusal(code string) string {
	return `{"success":false,"error":{"code":"` + code + `","message":"x"}}`
}

// An answer that the document does not describe is found.
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
		"an error":         {"/feeds/events", 401, "application/json", refusal("UNAUTHORIZED"), true},
		"no route":         {"/nowhere", 404, "application/json", refusal("NOT_FOUND"), true},
		"another status":   {"/feeds/events", 418, "application/json", good, false},
		"another type":     {"/feeds/events", 200, "text/plain", good, false},
		"more members":     {"/feeds/events", 200, "application/json", `{"success":true,"data":[],"more":1}`, false},
		"fewer members":    {"/feeds/events", 200, "application/json", `{"success":true}`, false},
		"another shape":    {"/feeds/events", 200, "application/json", `{"success":true,"data":[{"id":7}]}`, false},
		"an unknown code":  {"/feeds/events", 401, "application/json", refusal("NOPE"), false},
		"the other's code": {"/events/nowhere", 404, "application/json", refusal("FORBIDDEN"), false},
		"no envelope":      {"/nowhere", 404, "application/json", `"not found"`, false},
		"no JSON":          {"/nowhere", 404, "text/plain", `404`, false},
	}
	for name, tt := range tests {
		recorded := httptest.NewRecorder()
		recorded.Header().Set("Content-Type", tt.media)
		recorded.WriteHeader(tt.status)
		_, _ = recorded.WriteString(tt.body)
		err := public.check(httptest.NewRequestWithContext(t.Context(), http.MethodGet, tt.path, nil), nil, recorded)
		assert.Equal(t, err == nil, tt.fine, "%s: %v", name, err)
	}
}

// Only what succeeds is compared: the server says itself what is wrong with the rest.
func TestUndescribedRequestsAreFound(t *testing.T) {
	t.Parallel()
	const feed = "0c64d5f8-3f3f-5d8a-9a53-3b1f3a1c8a11"
	tests := map[string]struct {
		path, media, sent string
		fine              bool
	}{
		"as described":  {"/feeds/events/" + feed, "application/json; charset=utf-8", `{"enabled":false}`, true},
		"more members":  {"/feeds/events/" + feed, "application/json", `{"enabled":false,"more":1}`, false},
		"another type":  {"/feeds/events/" + feed, "text/plain", `{"enabled":false}`, false},
		"another shape": {"/feeds/events/" + feed, "application/json", `{"enabled":"no"}`, false},
	}
	for name, tt := range tests {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPatch, tt.path, nil)
		r.Header.Set("Content-Type", tt.media)
		doc := must.Get(public.load())(t)
		route, _, err := doc.router.FindRoute(r)
		must.OK(t, err)
		err = doc.checkRequest(r, route, []byte(tt.sent))
		assert.Equal(t, err == nil, tt.fine, "%s: %v", name, err)
	}
}
