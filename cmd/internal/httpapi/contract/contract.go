// Package contract holds the API to its OpenAPI document: in tests, every response passes through it.
package contract

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/getkin/kin-openapi/openapi3filter"
	"github.com/getkin/kin-openapi/routers"
	"github.com/getkin/kin-openapi/routers/gorillamux"
	"github.com/go-json-experiment/json"

	"carillon/cmd/internal/httpapi"
)

type document struct {
	*openapi3.T
	router routers.Router
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
	return document{T: parsed, router: router}, err
})

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
	return openapi3filter.ValidateResponse(r.Context(), &openapi3filter.ResponseValidationInput{
		RequestValidationInput: &openapi3filter.RequestValidationInput{Request: r, PathParams: params, Route: route},
		Status:                 recorded.Code, Header: recorded.Header(),
		Body:    readCloser{bytes.NewReader(recorded.Body.Bytes())},
		Options: &openapi3filter.Options{IncludeResponseStatus: true, MultiError: true},
	})
}

// checkError checks an answer to what is no route.
func (d document) checkError(r *http.Request, body []byte) error {
	name := "FeedsError"
	if r.URL.Path == "/events" || strings.HasPrefix(r.URL.Path, "/events/") {
		name = "EventsError"
	}
	var value any
	if err := json.Unmarshal(body, &value); err != nil {
		return err
	}
	return d.Components.Schemas[name].Value.VisitJSON(value, openapi3.EnableJSONSchema2020())
}

type readCloser struct{ *bytes.Reader }

func (readCloser) Close() error { return nil }
