// Package contract holds the API to its OpenAPI document: in tests, every response passes through it.
package contract

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon/cmd/internal/httpapi"
)

type document struct {
	*openapi3.T
	router routers.Router

	mu       *sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by where they are in the document
}

// load reads the document once for a test binary.
var load = sync.OnceValues(func() (document, error) {
	data, err := httpapi.OpenAPI()
	if err != nil {
		return document{}, err
	}
	parsed, err := openapi3.NewLoader().LoadFromData(data)
	if err != nil {
		return document{}, fmt.Errorf("load: %w", err)
	}
	if err := parsed.Validate(context.Background()); err != nil {
		return document{}, fmt.Errorf("validate: %w", err)
	}
	router, err := gorillamux.NewRouter(parsed)
	if err != nil {
		return document{}, err
	}
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return document{}, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	compiler.AssertFormat()
	return document{
		T: parsed, router: router, mu: new(sync.Mutex), compiler: compiler, compiled: map[string]*jsonschema.Schema{},
	}, compiler.AddResource(source, tree)
})

// source is the name of the document as a resource of schemas.
const source = "https://carillon.example/openapi.json"

// schema returns the schema at a place in the document. It is compiled once: the library that checks the rest of a response
// compiles it for each.
func (d document) schema(at string) (*jsonschema.Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if known := d.compiled[at]; known != nil {
		return known, nil
	}
	schema, err := d.compiler.Compile(source + at)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", at, err)
	}
	d.compiled[at] = schema
	return schema, nil
}

// checkBody checks a body against the schema at a place in the document.
func (d document) checkBody(at string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	schema, err := d.schema(at)
	if err != nil {
		return err
	}
	return schema.Validate(value)
}

// bodyAt returns where the schema of a response's body is in the document, or "" where its body has none.
func bodyAt(route *routers.Route, r *http.Request, recorded *httptest.ResponseRecorder) (string, error) {
	response := route.Operation.Responses.Status(recorded.Code)
	if response == nil || len(response.Value.Content) == 0 {
		return "", nil
	}
	at := response.Ref
	if at == "" {
		at = fmt.Sprintf("#/paths/%s/%s/responses/%d", escape(route.Path), strings.ToLower(r.Method), recorded.Code)
	}
	given := recorded.Header().Get("Content-Type")
	described := response.Value.Content.Get(given)
	for mediaType, one := range response.Value.Content {
		switch {
		case one != described:
		case one.Schema == nil:
			return "", nil
		default:
			return at + "/content/" + escape(mediaType) + "/schema", nil
		}
	}
	return "", fmt.Errorf("the media type %q is not described", given)
}

// escape makes a part of a JSON pointer within a URL.
func escape(part string) string {
	return url.PathEscape(strings.NewReplacer("~", "~0", "/", "~1").Replace(part))
}

// Document is the OpenAPI document, parsed and validated.
func Document(tb testing.TB) *openapi3.T {
	tb.Helper()
	doc, err := load()
	if err != nil {
		tb.Fatalf("openapi document: %v", err)
	}
	return doc.T
}

// Enforce wraps the API so that a response which the document does not describe fails the test: another status,
// another shape, a missing header. A path that is in no document must get the error envelope of its surface.
func Enforce(tb testing.TB, api http.Handler) http.Handler {
	tb.Helper()
	Document(tb)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		asked := r.Clone(r.Context()) // before the handler reads the body
		api.ServeHTTP(recorded, r)
		if err := check(asked, recorded); err != nil {
			tb.Errorf("%s %s answered %d %.1000s\nwhich is not by the OpenAPI document: %v", r.Method, r.URL.Path, recorded.Code, recorded.Body, err)
		}
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	})
}

func check(r *http.Request, recorded *httptest.ResponseRecorder) error {
	doc, err := load()
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/docs") {
		return nil // the GET's answer without a body; a page for browsers
	}
	route, params, err := doc.router.FindRoute(r)
	if err != nil {
		return doc.checkError(r, recorded.Body.Bytes())
	}
	err = openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 recorded.Code, Header: recorded.Header(),
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true, ExcludeResponseBody: true},
	})
	if err != nil {
		return err
	}
	at, err := bodyAt(route, r, recorded)
	if err != nil || at == "" {
		return err
	}
	return doc.checkBody(at, recorded.Body.Bytes())
}

// checkError checks an answer to what is no route.
func (d document) checkError(r *http.Request, body []byte) error {
	name := "FeedsError"
	if r.URL.Path == "/events" || strings.HasPrefix(r.URL.Path, "/events/") {
		name = "EventsError"
	}
	return d.checkBody("#/components/schemas/"+name, body)
}
