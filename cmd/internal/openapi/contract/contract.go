// Package contract compares an API with its OpenAPI document: in tests, every request that succeeds and every response
// pass through it.
package contract

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"mime"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/santhosh-tekuri/jsonschema/v6"

	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

type document struct {
	*openapi3.T
	router routers.Router

	answers, requests *schemas
}

// schemas are those of a document. Each is compiled once: the library that checks the rest of a response compiles them
// for each.
type schemas struct {
	mu       sync.Mutex
	compiler *jsonschema.Compiler
	compiled map[string]*jsonschema.Schema // by where they are in the document
}

// Contract is an API's document.
type Contract struct {
	load func() (document, error)
	// errorOf returns the name of the schema of errors at a path.
	errorOf func(path string) string
}

// New makes a contract. The document is read once.
func New(read func() ([]byte, error), errorOf func(path string) string) *Contract {
	return &Contract{
		load:    sync.OnceValues(func() (document, error) { return parse(read) }),
		errorOf: errorOf,
	}
}

func parse(read func() ([]byte, error)) (document, error) {
	data, err := read()
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
	answers, err := schemasOf(data)
	if err != nil {
		return document{}, err
	}
	answers.compiler.AssertFormat()
	requests, err := schemasOf(data) // the server accepts more notations of times than RFC 3339 has
	return document{
		T:        parsed,
		router:   router,
		answers:  answers,
		requests: requests,
	}, err
}

// source is the name of the document as a resource of schemas.
const source = "https://carillon.example/openapi.json"

func schemasOf(data []byte) (*schemas, error) {
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(data))
	if err != nil {
		return nil, err
	}
	compiler := jsonschema.NewCompiler()
	compiler.DefaultDraft(jsonschema.Draft2020)
	return &schemas{compiler: compiler, compiled: map[string]*jsonschema.Schema{}}, compiler.AddResource(source, tree)
}

// at returns the schema at a place in the document.
func (s *schemas) at(place string) (*jsonschema.Schema, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if known := s.compiled[place]; known != nil {
		return known, nil
	}
	schema, err := s.compiler.Compile(source + place)
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", place, err)
	}
	s.compiled[place] = schema
	return schema, nil
}

// check checks a body against the schema at a place in the document.
func (s *schemas) check(place string, body []byte) error {
	value, err := jsonschema.UnmarshalJSON(bytes.NewReader(body))
	if err != nil {
		return err
	}
	schema, err := s.at(place)
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
		case one.Schema == nil, mediaType != "application/json":
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

// Document returns the OpenAPI document, parsed and validated.
func (c *Contract) Document(tb testing.TB) *openapi3.T {
	tb.Helper()
	doc := must.Get(c.load())(tb)
	return doc.T
}

// List returns a list of values as CheckLists compares it.
func List[T ~string](values ...T) string {
	values = slices.Clone(values)
	slices.Sort(values)
	return fmt.Sprint(slices.Compact(values))
}

// CheckLists requires each list of values in the document to be one that the program declares or that another document
// has, and each declared one to be in the document. A single value is no list, and a null beside others is not counted.
func (c *Contract) CheckLists(tb testing.TB, others []string, declared ...string) {
	tb.Helper()
	text := must.Get(json.Marshal(c.Document(tb)))(tb)
	var root any
	must.OK(tb, json.Unmarshal(text, &root))
	found := map[string]bool{}
	var walk func(at any, path string)
	walk = func(at any, path string) {
		switch at := at.(type) {
		case []any:
			for i, value := range at {
				walk(value, fmt.Sprint(path, "/", i))
			}
		case map[string]any:
			var values []string
			listed, _ := at["enum"].([]any)
			for _, value := range listed {
				if value, ok := value.(string); ok {
					values = append(values, value)
				}
			}
			if list := List(values...); len(values) > 1 {
				found[list] = true
				if !slices.Contains(declared, list) && !slices.Contains(others, list) {
					tb.Errorf("%s lists %s, which is declared nowhere", path, list)
				}
			}
			for name, value := range at {
				walk(value, path+"/"+name)
			}
		}
	}
	walk(root, "")
	for _, list := range declared {
		assert.Equal(tb, found[list], true, "%s is declared, and not in the document", list)
	}
}

// Enforce wraps the API so that the test fails if the document does not describe a response, or a request that
// succeeded: another status, another shape, a missing header. A path that is in no document must get an error envelope.
func (c *Contract) Enforce(tb testing.TB, api http.Handler) http.Handler {
	tb.Helper()
	c.Document(tb)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		recorded := httptest.NewRecorder()
		asked := r.Clone(r.Context())
		var sent bytes.Buffer // as far as the handler reads it
		if r.ContentLength > 0 {
			r.Body = struct {
				io.Reader
				io.Closer
			}{io.TeeReader(r.Body, &sent), r.Body}
		}
		api.ServeHTTP(recorded, r)
		if err := c.check(asked, sent.Bytes(), recorded); err != nil {
			tb.Errorf("%s %s %.1000s answered %d %.1000s\nwhich is not by the OpenAPI document: %v",
				r.Method, r.URL.Path, &sent, recorded.Code, recorded.Body, err)
		}
		for name, values := range recorded.Header() {
			w.Header()[name] = values
		}
		w.WriteHeader(recorded.Code)
		_, _ = w.Write(recorded.Body.Bytes())
	})
}

func (c *Contract) check(r *http.Request, sent []byte, recorded *httptest.ResponseRecorder) error {
	doc, err := c.load()
	if err != nil {
		return err
	}
	if r.Method == http.MethodHead || strings.HasPrefix(r.URL.Path, "/docs") {
		return nil // the GET's answer without a body; a page for browsers
	}
	route, params, err := doc.router.FindRoute(r)
	if err != nil {
		return doc.answers.check("#/components/schemas/"+c.errorOf(r.URL.Path), recorded.Body.Bytes())
	}
	if recorded.Code < http.StatusMultipleChoices {
		if err := doc.checkRequest(r, route, sent); err != nil {
			return fmt.Errorf("request: %w", err)
		}
	}
	err = openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{
			Request:    r,
			PathParams: params,
			Route:      route,
		},
		Status: recorded.Code,
		Header: recorded.Header(),
		Options: &openapi3filter.Options{
			IncludeResponseStatus: true,
			MultiError:            true,
			ExcludeResponseBody:   true,
		},
	})
	if err != nil {
		return err
	}
	at, err := bodyAt(route, r, recorded)
	if err != nil || at == "" {
		return err
	}
	return doc.answers.check(at, recorded.Body.Bytes())
}

var errUndescribed = errors.New("the media type of the body is not described")

// checkRequest checks the body of a request that succeeded.
func (d document) checkRequest(r *http.Request, route *routers.Route, sent []byte) error {
	if len(sent) == 0 {
		return nil
	}
	described := route.Operation.RequestBody
	media, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if err != nil || described == nil || described.Value.Content[media] == nil {
		return errors.Join(err, errUndescribed)
	}
	if media != "application/json" {
		return nil
	}
	at := described.Ref
	if at == "" {
		at = fmt.Sprintf("#/paths/%s/%s/requestBody", escape(route.Path), strings.ToLower(r.Method))
	}
	return d.requests.check(at+"/content/application~1json/schema", sent)
}
