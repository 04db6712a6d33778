package contract

import (
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"

	"carillon/eventstore/storetest/must"
)

// CheckExamples checks the examples of all bodies: each fits its schema, and each error has one, whose code the API
// answers with that status.
func (c *Contract) CheckExamples(tb testing.TB, codes map[string][]string) {
	tb.Helper()
	doc := must.Get(c.load())(tb)
	for path, item := range doc.Paths.Map() {
		for method, operation := range item.Operations() {
			at := "#/paths/" + escape(path) + "/" + strings.ToLower(method)
			if body := operation.RequestBody; body != nil && body.Ref == "" {
				doc.checkExamples(tb, doc.requests, at+"/requestBody", body.Value.Content)
			}
			for status, response := range operation.Responses.Map() {
				place := at + "/responses/" + status
				if response.Ref != "" {
					place = response.Ref
				}
				examples := doc.checkExamples(tb, doc.answers, place, response.Value.Content)
				if status >= "400" && response.Value.Content["text/plain"] == nil {
					checkCodes(tb, place+" as "+status, examples, codes[status])
				}
			}
		}
	}
}

// checkExamples returns the examples of a body.
func (d document) checkExamples(tb testing.TB, s *schemas, place string, content openapi3.Content) (examples []any) {
	tb.Helper()
	media := content["application/json"]
	if media == nil {
		return nil
	}
	if media.Example != nil {
		examples = append(examples, media.Example)
	}
	for _, named := range media.Examples {
		examples = append(examples, named.Value.Value)
	}
	for _, example := range examples {
		raw := must.Get(json.Marshal(example))(tb)
		if err := s.check(place+"/content/application~1json/schema", raw); err != nil {
			tb.Errorf("example at %s: %s: %v", place, raw, err)
		}
	}
	return examples
}

func checkCodes(tb testing.TB, place string, examples []any, codes []string) {
	tb.Helper()
	if len(examples) == 0 {
		tb.Errorf("%s has no example: the playground makes one with the first code there is", place)
	}
	for _, example := range examples {
		envelope, _ := example.(map[string]any)
		failure, _ := envelope["error"].(map[string]any)
		if code, _ := failure["code"].(string); !slices.Contains(codes, code) {
			tb.Errorf("example at %s: the code is %q, and is one of %v", place, code, codes)
		}
	}
}
