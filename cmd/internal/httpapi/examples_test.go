package httpapi_test

import (
	"maps"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/sources"
)

func TestExamplesAreRight(t *testing.T) {
	t.Parallel()
	documented.CheckExamples(t, map[string][]string{
		"400": {"INVALID_BODY", "INVALID_PARAMS", "INVALID_QUERY", "VALIDATION_FAILED", "BAD_REQUEST"},
		"401": {"AUTHENTICATION_FAILED", "UNAUTHORIZED"},
		"403": {"FORBIDDEN"},
		"404": {"NOT_FOUND"},
		"409": {"ALREADY_EXISTS", "CONFLICT"},
		"413": {"INVALID_BODY", "BAD_REQUEST"},
		"415": {"INVALID_BODY", "BAD_REQUEST"},
		"429": {"RATE_LIMITED"},
		"500": {"INTERNAL_ERROR", "INTERNAL_SERVER_ERROR"},
		"503": {"SERVICE_UNAVAILABLE"},
	})
}

// Every example of a request is accepted, in the order in which a reader tries them, by an organization with a feed
// that has an item, and with the source of a development server.
func TestExamplesOfRequestsAreAccepted(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.filledFeed(t)
	example := command.RegisterSource{Type: "site", URL: dev.ExampleSource}
	made, err := s.Commands.RegisterSource(t.Context(), apitest.Operator, example)
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, made.Position, sources.ReadModel.Name)
	paths := documented.Document(t).Paths.Map()
	fill := strings.NewReplacer("{ref}", "crm", "{subRef}", "news", "{id}", w.feed, "{feedId}", w.feed, "{itemId}", w.item)
	for _, path := range slices.Sorted(maps.Keys(paths)) {
		for _, method := range []string{http.MethodPost, http.MethodPut, http.MethodPatch} {
			operation := paths[path].Operations()[method]
			if operation == nil || operation.RequestBody == nil || operation.OperationID == "answerWebhook" { // none waits
				continue
			}
			media := operation.RequestBody.Value.Content["application/json"]
			examples := map[string]any{}
			if media.Example != nil {
				examples["the only one"] = media.Example
			}
			for name, named := range media.Examples {
				examples[name] = named.Value.Value
			}
			for _, name := range slices.Sorted(maps.Keys(examples)) {
				body, err := json.Marshal(examples[name])
				if err != nil {
					t.Fatal(err)
				}
				got := s.do(t, request{method: method, path: fill.Replace(path), body: string(body)})
				if got.status >= http.StatusMultipleChoices {
					t.Errorf("%s %s, example %s: %d %s", method, path, name, got.status, got.body)
				}
			}
		}
	}
}
