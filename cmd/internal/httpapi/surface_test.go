package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/query"
)

// surface is every route under /events, each with a request that is in order.
var surface = []request{
	{method: "GET", path: destinationsPath},
	{method: "POST", path: destinationsPath, body: `{"name":"x","config":{"url":"https://127.0.0.1:1/"}}`},
	{method: "POST", path: destinationsPath + "/validate", body: `{"config":{"url":"https://127.0.0.1:1/"}}`},
	{method: "GET", path: destinationsPath + "/{ref}"},
	{method: "PUT", path: destinationsPath + "/{ref}", body: `{"name":"x","config":{"url":"https://127.0.0.1:1/"}}`},
	{method: "PATCH", path: destinationsPath + "/{ref}", body: `{"name":"x"}`},
	{method: "DELETE", path: destinationsPath + "/{ref}"},
	{method: "GET", path: "/events/notices"},
	{method: "PUT", path: "/events/notices", body: `{"name":"x","config":{"url":"https://127.0.0.1:1/"}}`},
	{method: "DELETE", path: "/events/notices"},
	{method: "POST", path: destinationsPath + "/{ref}/test", body: `{}`},
	{method: "GET", path: destinationsPath + "/{ref}/listen"},
	{method: "POST", path: destinationsPath + "/{ref}/listen/{id}", body: `{"status":204}`},
	{method: "GET", path: destinationsPath + "/{ref}/secrets"},
	{method: "POST", path: destinationsPath + "/{ref}/secrets/rotate", body: `{}`},
	{method: "POST", path: destinationsPath + "/{ref}/secrets/{secretId}/expire", body: `{}`},
	{method: "GET", path: destinationsPath + "/{ref}/subscriptions"},
	{method: "POST", path: destinationsPath + "/{ref}/subscriptions", body: `{"eventTypes":["*"],"scopeKind":"all"}`},
	{method: "GET", path: destinationsPath + "/{ref}/subscriptions/{subRef}"},
	{
		method: "PUT",
		path:   destinationsPath + "/{ref}/subscriptions/{subRef}",
		body:   `{"eventTypes":["*"],"scopeKind":"all"}`,
	},
	{method: "PATCH", path: destinationsPath + "/{ref}/subscriptions/{subRef}", body: `{"active":true}`},
	{method: "DELETE", path: destinationsPath + "/{ref}/subscriptions/{subRef}"},
	{method: "GET", path: destinationsPath + "/{ref}/deliveries"},
	{
		method: "POST",
		path:   destinationsPath + "/{ref}/backfill",
		body:   `{"since":"2026-11-01T00:00:00Z","until":"2026-11-02T00:00:00Z"}`,
	},
	{method: "GET", path: "/events/deliveries"},
	{method: "GET", path: "/events/deliveries/{id}"},
	{method: "POST", path: "/events/deliveries/{id}/replay", body: `{}`},
	{method: "POST", path: "/events/deliveries/{id}/retry", body: `{}`},
	{method: "POST", path: destinationsPath + "/{ref}/recover", body: `{}`},
	{method: "GET", path: "/events/events"},
	{method: "GET", path: "/events/events/{id}"},
	{method: "GET", path: "/events/types"},
}

// filled puts well-formed parameters into a route's path, of things that are not there.
func filled(in request) request {
	in.path = strings.NewReplacer("{ref}", "unknown", "{subRef}", "nothing", "{id}", missing, "{secretId}", missing).
		Replace(in.path)
	return in
}

const missing = "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a"

func TestSurfaceIsWhole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.allListed(t, surface, func(route string) bool { return strings.HasPrefix(route, "/events") })
}

// allListed expects each route of a surface among the requests that the tests go through.
func (s *server) allListed(t *testing.T, requests []request, ofSurface func(route string) bool) {
	t.Helper()
	listed := map[string]bool{}
	for _, in := range requests {
		listed[in.method+" "+in.path] = true
	}
	err := chi.Walk(s.api.Routes(),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			if ofSurface(route) && !listed[method+" "+route] {
				t.Errorf("%s %s is not in the list that the tests go through", method, route)
			}
			return nil
		})
	if err != nil {
		t.Fatal(err)
	}
}

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read before the key was checked")
	return 0, io.EOF
}

func TestKeyIsCheckedBeforeTheBodyOnEveryRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, in := range append([]request{
		{method: "POST", path: "/events/nowhere"},
		{method: "PATCH", path: "/events/types"},
	}, surface...) {
		s.keyFirst(t, filled(in), "AUTHENTICATION_FAILED", "")
	}
}

// keyFirst sends a request without a good key and with a body that must not be read.
func (s *server) keyFirst(t *testing.T, in request, code, message string) {
	t.Helper()
	for _, header := range []string{"", "Bearer nonsense", "Basic eDp5", "Bearer " + strings.Repeat("k", 61), s.key} {
		r := httptest.NewRequestWithContext(t.Context(), in.method, in.path, unreadable{t})
		r.ContentLength = 1 << 40 // nor is its size looked at
		r.RemoteAddr = "127.0.0.1:40000"
		r.Header.Set("Content-Type", "text/plain")
		if header != "" {
			r.Header.Set("Authorization", header)
		}
		w := httptest.NewRecorder()
		s.contract.ServeHTTP(w, r)
		response{status: w.Code, header: w.Header(), body: w.Body.String()}.refused(t, 401, code, message)
	}
}

func TestUnknownFieldsAreRefusedOnEveryWriteRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	destination := s.destination(t, "unknown") // so that nothing else is wrong
	s.do(t, request{
		method: "PUT",
		path:   destinationsPath + "/unknown/subscriptions/nothing",
		body:   `{"eventTypes":["*"],"scopeKind":"all"}`,
	}).into(t, 201, new(any))
	for _, in := range surface {
		if in.body == "" {
			continue
		}
		in = filled(in)
		in.path = strings.Replace(in.path, missing+"/expire", destination.Secrets[0].ID+"/expire", 1)
		in.body = strings.Replace(strings.Replace(in.body, "{", `{"colour":"red",`, 1), ",}", "}", 1)
		s.do(t, in).refused(t, 400, "INVALID_BODY", "colour is not a known field")
		in.body = `null`
		s.do(t, in).refused(t, 400, "INVALID_BODY", "body must be an object, not null")
		in.body = `{"cut`
		s.do(t, in).refused(t, 400, "INVALID_BODY", "not valid JSON")
		in.body = `{}`
		in.header = map[string]string{"Content-Type": "text/plain"}
		s.do(t, in).refused(t, 415, "INVALID_BODY", "Content-Type")
		in.header, in.body = nil, strings.Repeat(" ", 256<<10+1)
		s.do(t, in).refused(t, 413, "INVALID_BODY", "262144")
	}
}

func TestRoutesWithoutBodyTakeNone(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	for _, body := range []string{"", "{}", "{}\n"} {
		s.do(t, request{method: "POST", path: destinationsPath + "/crm/secrets/rotate", body: body}).into(t, 200, new(any))
		s.do(t, request{method: "POST", path: destinationsPath + "/crm/test", body: body}).into(t, 200, new(any))
	}
}

func TestBadPathParametersOnEveryRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "crm")
	for _, in := range surface {
		for _, param := range []string{"{ref}", "{subRef}", "{id}", "{secretId}"} {
			if !strings.Contains(in.path, param) {
				continue
			}
			bad := in
			bad.path = strings.Replace(in.path, param, "a%20b", 1)
			bad.path = strings.Replace(bad.path, "{ref}", "crm", 1)
			code := "INVALID_PARAMS"
			if in.method == "PUT" {
				code = "VALIDATION_FAILED"
			}
			if param == "{secretId}" { // no secret has such an id
				s.do(t, filled(bad)).refused(t, 404, "NOT_FOUND", "not found")
				continue
			}
			s.do(t, filled(bad)).refused(t, 400, code, strings.Trim(param, "{}")+" must be a UUID")
		}
	}
}

func TestUnknownQueryParametersOnEveryList(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.destination(t, "unknown")
	for _, in := range surface {
		if in.method == "GET" {
			in = filled(in)
			in.path += "?colour=red"
			s.do(t, in).refused(t, 400, "INVALID_QUERY", "colour is not a known query parameter")
		}
	}
}

func TestWrongMethodsAndRoutesOnEveryPath(t *testing.T) {
	t.Parallel()
	s := serve(t)
	taken := map[string]bool{}
	for _, in := range surface {
		taken[in.method+" "+in.path] = true
	}
	for _, in := range surface {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			at := strings.Replace(in.path, "/validate", "/{ref}", 1) // as GET /events/destinations/validate is of that name
			if taken[method+" "+in.path] || taken[method+" "+at] {
				continue
			}
			wrong := filled(request{method: method, path: in.path})
			got := s.do(t, wrong)
			got.refused(t, 404, "NOT_FOUND", "")
			if got.header.Get("Allow") == "" && method != "PROPFIND" && method != "TRACE" {
				t.Errorf("%s %s: the answer names no methods that are allowed", method, wrong.path)
			}
		}
		for _, more := range []string{"/", "/more/and/more", "//"} {
			s.do(t, filled(request{method: in.method, path: in.path + more})).refused(t, 404, "NOT_FOUND", "no such route")
		}
	}
}

// Things of other organizations can't be distinguished from unknown ones.
func TestOthersThingsDoNotExist(t *testing.T) {
	t.Parallel()
	s := serve(t)
	theirs := s.destination(t, "crm")
	var subscription struct {
		ID string `json:"id"`
	}
	s.do(t, request{
		method: "POST",
		path:   destinationsPath + "/crm/subscriptions",
		body:   `{"externalId":"all","eventTypes":["*"],"scopeKind":"all"}`,
	}).into(t, 201, &subscription)
	delivery := s.delivery(t, theirs.ID)
	event := "/events/events/" + s.detail(t, delivery).EventID
	_, mine := s.Organization(t, "Library")
	before := s.EventTypes(t, "destination-"+theirs.ID)
	for _, ref := range []string{"crm", theirs.ID} {
		for _, in := range surface {
			if !strings.Contains(in.path, "{") || in.method == "PUT" && !strings.Contains(in.path, "{subRef}") && ref == "crm" {
				continue // the last would create my own
			}
			there, not := in, in
			there.key, not.key = mine, mine
			there.path = strings.NewReplacer("/events/events/{id}", event, "{ref}", ref, "{subRef}", subscription.ID,
				"{id}", delivery, "{secretId}", theirs.Secrets[0].ID).Replace(in.path)
			unknown := "unknown"
			if ref != "crm" {
				unknown = uuid.NewString()
			}
			not.path = strings.NewReplacer("{ref}", unknown, "{subRef}", uuid.NewString(), "{id}", uuid.NewString(),
				"{secretId}", uuid.NewString()).Replace(in.path)
			got, want := s.do(t, there), s.do(t, not)
			if got.status != http.StatusNotFound || got.body != want.body || want.status != got.status {
				t.Errorf("%s %s: %d %s\nof a missing one: %d %s", in.method, there.path, got.status, got.body,
					want.status, want.body)
			}
		}
	}
	if after := s.EventTypes(t, "destination-"+theirs.ID); len(after) != len(before) {
		t.Errorf("another organization wrote %v", after[len(before):])
	}
	var page pageTotal
	s.do(t, request{path: destinationsPath, key: mine}).into(t, 200, &page)
	if page.Total != 0 {
		t.Errorf("another organization sees %d destinations", page.Total)
	}
}

func TestPostgresGoneOnEveryRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.rewire(t, func(p *httpapi.Dependencies) { p.Queries = &query.Queries{Pool: gone(t)} })
	for _, in := range surface {
		s.do(t, filled(in)).refused(t, 503, "SERVICE_UNAVAILABLE", "the request itself was fine")
	}
}
