package adminapi_test

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
)

// The document describes every route, and no route that there isn't.
func TestDocumentAndRouterAgree(t *testing.T) {
	t.Parallel()
	s := serve(t)
	var routed, described []string
	type middleware = func(http.Handler) http.Handler
	err := chi.Walk(s.api.Routes(), func(method, route string, _ http.Handler, _ ...middleware) error {
		routed = append(routed, method+" "+route)
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
			if open := operation.Security != nil; !open && operation.Responses.Value("401") == nil {
				t.Errorf("%s %s does not document 401", method, path)
			}
		}
	}
	slices.Sort(routed)
	slices.Sort(described)
	if !slices.Equal(routed, described) {
		t.Errorf("routes\n%s\ndocumented\n%s", strings.Join(routed, "\n"), strings.Join(described, "\n"))
	}
}

func TestDocumentNeedsNoToken(t *testing.T) {
	t.Parallel()
	got := serve(t).send(httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/admin/openapi.json", nil))
	if got.status != http.StatusOK || !strings.Contains(got.body, `"openapi":"3.1.0"`) {
		t.Errorf("answered %d %.200s", got.status, got.body)
	}
}

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	documented.CheckExamples(t, map[string][]string{
		"400": {"INVALID_BODY", "INVALID_PARAMS", "INVALID_QUERY", "VALIDATION_FAILED"},
		"401": {"AUTHENTICATION_FAILED"},
		"404": {"NOT_FOUND"},
		"409": {"ALREADY_EXISTS", "CONFLICT"},
		"413": {"INVALID_BODY"},
		"415": {"INVALID_BODY"},
		"429": {"RATE_LIMITED"},
		"500": {"INTERNAL_ERROR"},
		"503": {"SERVICE_UNAVAILABLE"},
	})
}
