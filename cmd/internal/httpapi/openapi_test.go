package httpapi_test

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"carillon/aggregates/delivery"
	"carillon/projections/deliveries/deliverystate"
)

// The document describes every route, and no route that there isn't.
func TestDocumentAndRouterAgree(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var routed, described []string
	err := chi.Walk(s.api.Routes(),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if route != "/docs/*" { // the playground's own files
				routed = append(routed, method+" "+route)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
	for path, item := range documented.Document(t).Paths.Map() {
		for method, operation := range item.Operations() {
			described = append(described, method+" "+path)
			if operation.OperationID == "" || operation.Summary == "" || len(operation.Tags) != 1 {
				t.Errorf("%s %s needs an operationId, a summary and a tag", method, path)
			}
			if !strings.HasPrefix(path, "/docs") && path != "/openapi.json" && operation.Responses.Value("401") == nil {
				t.Errorf("%s %s does not document 401", method, path)
			}
		}
	}
	slices.Sort(routed)
	slices.Sort(described)
	for _, route := range routed {
		if !slices.Contains(described, route) {
			t.Errorf("%s is a route and not documented", route)
		}
	}
	for _, route := range described {
		if !slices.Contains(routed, route) {
			t.Errorf("%s is documented and no route", route)
		}
	}
}

// The document's lists are those that the program declares.
func TestDocumentListsWhatIsDeclared(t *testing.T) {
	t.Parallel()
	failures := make([]delivery.Failure, len(delivery.Failures))
	for i, declared := range delivery.Failures {
		failures[i] = declared.Failure
	}
	for schema, want := range map[string]string{
		"FailureReason":  fmt.Sprint(failures),
		"DeliveryStatus": fmt.Sprint(deliverystate.Statuses()),
		"DeliveryState":  fmt.Sprint(deliverystate.States()),
		"DeliveryFilter": fmt.Sprint(deliverystate.Names()),
		"DeliveryReason": fmt.Sprint(deliverystate.Reasons()),
	} {
		if got := fmt.Sprint(documented.Document(t).Components.Schemas[schema].Value.Enum); got != want {
			t.Errorf("%s lists %v, and %v are declared", schema, got, want)
		}
	}
}

func TestDocumentationNeedsNoKeyAndStaysHere(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, want := range map[string]string{
		"/openapi.json":              `"openapi":"3.1.0"`,
		"/docs":                      "/docs/start.js",
		"/docs/":                     "/docs/start.js",
		"/docs/start.js":             "SwaggerUIBundle",
		"/docs/style.css":            "prefers-color-scheme: dark",
		"/docs/swagger-ui-bundle.js": "",
		"/docs/swagger-ui.css":       "",
	} {
		got := s.do(t, request{path: path, key: "none"})
		if got.status != http.StatusOK || !strings.Contains(got.body, want) {
			t.Errorf("GET %s: %d, without %q", path, got.status, want)
		}
		if !strings.HasPrefix(path, "/docs") {
			continue
		}
		policy := got.header.Get("Content-Security-Policy")
		for _, part := range []string{"default-src 'none'", "script-src 'self';", "connect-src 'self';"} {
			if !strings.Contains(policy, part) {
				t.Errorf("GET %s: the policy %q lacks %q", path, policy, part)
			}
		}
		if strings.HasPrefix(got.header.Get("Content-Type"), "text/html") && strings.Contains(got.body, "<script>") {
			t.Errorf("GET %s has an inline script, which its own policy blocks", path)
		}
	}
	for coding, zipped := range map[string]bool{
		"":            false,
		"br, gzip":    true,
		"gzip;q=0":    false,
		"gzip; q=0.5": true,
		"br":          false,
	} {
		path, header := "/docs/swagger-ui.css", map[string]string{"Accept-Encoding": coding}
		for range 2 { // the second comes from memory
			got := s.do(t, request{path: path, key: "none", header: header})
			if is := got.header.Get("Content-Encoding") == "gzip"; got.status != 200 || is != zipped ||
				strings.HasPrefix(got.body, "\x1f\x8b") != zipped {
				t.Errorf("accepted %q: %d %v, compressed: %t", coding, got.status, got.header, is)
			}
			header["If-None-Match"] = got.header.Get("ETag")
			if again := s.do(t, request{path: path, key: "none", header: header}); again.status != 304 || again.body != "" {
				t.Errorf("again, with ETag %q: %d", header["If-None-Match"], again.status)
			}
			delete(header, "If-None-Match")
		}
	}
	if got := s.do(t, request{path: "/docs/none.js", key: "none"}); got.status != http.StatusNotFound {
		t.Errorf("GET /docs/none.js: %d", got.status)
	}
}
