package contract

import (
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/go-json-experiment/json"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// hostile are values that a database, an encoding or arithmetic may fail at.
var hostile = []any{
	"a\x00b", "a\xffb", "..", strings.Repeat("9", 400), "9223372036854775807", "0000-01-01T00:00:00+23:59",
	"9999-12-31T23:59:59.999999999Z", "00000000-0000-0000-0000-000000000000", -1e300, map[string]any{}, []any{nil},
}

// Walk sends requests to all operations of the document, each with one hostile parameter or member of the body, and
// fails the test if one is answered with 500. The other parameters of a path have known values, the other members of a
// body those of an example.
func (c *Contract) Walk(tb testing.TB, known map[string]string, send func(method, path, body string) (status int)) {
	tb.Helper()
	fill := func(path string) string {
		for name, value := range known {
			path = strings.ReplaceAll(path, "{"+name+"}", value)
		}
		return path
	}
	for path, item := range c.Document(tb).Paths.Map() {
		for method, operation := range item.Operations() {
			try := func(path, body string) {
				if status := send(method, fill(path), body); status == 500 {
					tb.Errorf("%s %s %.300q answered 500", method, path, body)
				}
			}
			body := ""
			if sent := operation.RequestBody; sent != nil {
				media := sent.Value.Content["application/json"]
				for _, one := range append(bodies(media.Schema.Value, exampleOf(media)), exampleOf(media)) {
					raw, _ := json.Marshal(one)
					body = string(raw)
					try(path, body)
				}
			}
			for _, parameter := range append(slices.Clone(item.Parameters), operation.Parameters...) {
				for _, value := range hostile {
					text, name := url.PathEscape(fmt.Sprint(value)), parameter.Value.Name
					if parameter.Value.In == openapi3.ParameterInQuery {
						try(path+"?"+name+"="+text, body)
					} else {
						try(strings.ReplaceAll(path, "{"+name+"}", text), body)
					}
				}
			}
		}
	}
}

func exampleOf(media *openapi3.MediaType) (object map[string]any) {
	example := media.Example
	for _, named := range media.Examples {
		example = named.Value.Value
	}
	object, _ = example.(map[string]any)
	return object
}

// bodies returns an example with each member, of members too, replaced by each hostile value.
func bodies(schema *openapi3.Schema, example map[string]any) (all []map[string]any) {
	for name, property := range schema.Properties {
		inner, _ := example[name].(map[string]any)
		values := slices.Clone(hostile)
		for _, body := range bodies(property.Value, inner) {
			values = append(values, body)
		}
		for _, value := range values {
			body := maps.Clone(example)
			if body == nil {
				body = map[string]any{}
			}
			body[name] = value
			all = append(all, body)
		}
	}
	return all
}

// CheckRoutes expects that the document describes every route but some, and no route that there isn't.
func (c *Contract) CheckRoutes(t *testing.T, router chi.Routes, but ...string) {
	t.Helper()
	var routed, described []string
	type middleware = func(http.Handler) http.Handler
	must.OK(t, chi.Walk(router, func(method, route string, _ http.Handler, _ ...middleware) error {
		if !slices.Contains(but, route) {
			routed = append(routed, method+" "+route)
		}
		return nil
	}))
	for path, item := range c.Document(t).Paths.Map() {
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
	for what, lists := range map[string][2][]string{
		"a route and not documented": {routed, described}, "documented and no route": {described, routed},
	} {
		for _, route := range lists[0] {
			assert.Equal(t, slices.Contains(lists[1], route), true, "%s is %s", route, what)
		}
	}
}
