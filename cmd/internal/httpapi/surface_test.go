package httpapi_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/query"
)

const (
	onePath = destinationsPath + "/{ref}"
	subPath = onePath + "/subscriptions"
	hookAt  = `{"name":"x","config":{"url":"https://127.0.0.1:1/"}}`
	allOf   = `{"eventTypes":["*"],"scopeKind":"all"}`
	oneDay  = `{"since":"2026-11-01T00:00:00Z","until":"2026-11-02T00:00:00Z"}`
)

// surface is every route under /events and /feeds, each with a request that is in order. Deletions of feeds come last.
var surface = []request{
	{method: "GET", path: destinationsPath},
	{method: "POST", path: destinationsPath, body: hookAt},
	{method: "POST", path: destinationsPath + "/validate", body: `{"config":{"url":"https://127.0.0.1:1/"}}`},
	{method: "GET", path: onePath},
	{method: "PUT", path: onePath, body: hookAt},
	{method: "PATCH", path: onePath, body: `{"name":"x"}`},
	{method: "DELETE", path: onePath},
	{method: "GET", path: "/events/notices"},
	{method: "PUT", path: "/events/notices", body: hookAt},
	{method: "DELETE", path: "/events/notices"},
	{method: "POST", path: onePath + "/test", body: `{}`},
	{method: "GET", path: onePath + "/listen"},
	{method: "POST", path: onePath + "/listen/{id}", body: `{"status":204}`},
	{method: "GET", path: onePath + "/secrets"},
	{method: "POST", path: onePath + "/secrets/rotate", body: `{}`},
	{method: "POST", path: onePath + "/secrets/{secretId}/expire", body: `{}`},
	{method: "GET", path: subPath},
	{method: "POST", path: subPath, body: allOf},
	{method: "GET", path: subPath + "/{subRef}"},
	{method: "PUT", path: subPath + "/{subRef}", body: allOf},
	{method: "PATCH", path: subPath + "/{subRef}", body: `{"active":true}`},
	{method: "DELETE", path: subPath + "/{subRef}"},
	{method: "GET", path: onePath + "/deliveries"},
	{method: "POST", path: onePath + "/backfill", body: oneDay},
	{method: "GET", path: "/events/deliveries"},
	{method: "GET", path: "/events/deliveries/{id}"},
	{method: "POST", path: "/events/deliveries/{id}/replay", body: `{}`},
	{method: "POST", path: "/events/deliveries/{id}/retry", body: `{}`},
	{method: "POST", path: onePath + "/recover", body: `{}`},
	{method: "GET", path: "/events/events"},
	{method: "GET", path: "/events/events/{id}"},
	{method: "GET", path: "/events/metrics"},
	{method: "GET", path: "/events/types"},
	{method: "GET", path: feedsPath},
	{method: "POST", path: feedsPath, body: `{"name":"n","description":"d"}`},
	{method: "GET", path: feedsPath + "/{id}"},
	{method: "PATCH", path: feedsPath + "/{id}", body: `{"name":"x"}`},
	{method: "GET", path: feedsPath + "/{id}/sources"},
	{method: "POST", path: feedsPath + "/{id}/sources", body: `{"sourceType":"site","sourceId":"{source}"}`},
	{method: "GET", path: feedsPath + "/{feedId}/items"},
	{method: "GET", path: "/v0" + feedsPath + "/{feedId}/items"},
	{method: "GET", path: feedsPath + "/{feedId}/items/{itemId}"},
	{method: "POST", path: feedsPath + "/{feedId}/items/{itemId}/feedback", body: `{"rating":"neutral"}`},
	{method: "DELETE", path: feedsPath + "/{id}/sources/{sourceId}"},
	{method: "DELETE", path: feedsPath + "/{id}"},
}

const missing = "0a0a0a0a-0a0a-4a0a-8a0a-0a0a0a0a0a0a"

// fill puts values into the parameters of a route, and those of things that are not there into others.
func fill(in request, known ...string) request {
	values := strings.NewReplacer(append(known, "{ref}", "unknown", "{subRef}", "nothing", "{id}", missing,
		"{secretId}", missing, "{feedId}", missing, "{itemId}", missing, "{sourceId}", missing, "{source}", missing)...)
	in.path, in.body = values.Replace(in.path), values.Replace(in.body)
	return in
}

// ofFeeds reports whether a request is of the feeds' surface, whose errors have other codes.
func (in request) ofFeeds() bool { return strings.Contains(in.path, "/feeds") }

func TestSurfaceIsWhole(t *testing.T) {
	s := serve(t)
	must.OK(t, chi.Walk(s.api.Routes(),
		func(method, route string, _ http.Handler, _ ...func(http.Handler) http.Handler) error {
			listed := slices.ContainsFunc(surface, func(in request) bool { return in.method == method && in.path == route })
			if (strings.HasPrefix(route, "/events") || strings.Contains(route, "/feeds")) && !listed {
				t.Errorf("%s %s is not in the list that the tests go through", method, route)
			}
			return nil
		}))
}

func TestUnknownFieldsAreRefusedOnEveryWriteRoute(t *testing.T) {
	s := serve(t)
	destination := s.destination(t, "unknown") // so that nothing else is wrong
	s.put(t, destinationsPath+"/unknown/subscriptions/nothing", allOf).into(t, 201, new(any))
	known := append(s.filledFeed(t).pairs(), "{secretId}", destination.Secrets[0].ID)
	for _, in := range surface {
		if in.body == "" {
			continue
		}
		in, code := fill(in, known...), "INVALID_BODY"
		if in.ofFeeds() {
			code = "BAD_REQUEST"
		}
		good := in.body
		for body, issue := range map[string]string{
			strings.Replace(strings.Replace(good, "{", `{"colour":"red",`, 1), ",}", "}", 1): "colour is not a known field",
			`null`:  "body must be an object, not null",
			`{"cut`: "not valid JSON", `[]`: "must be an object", good + good: "not valid JSON",
		} {
			in.body = body
			got := s.do(t, in)
			got.refused(t, 400, code, issue)
			if details := got.problem(t).Error.Details; in.ofFeeds() &&
				(details == nil || details.Field == "" || details.Issue == "") {
				t.Errorf("%s %s with %s: details = %+v", in.method, in.path, body, details)
			}
		}
		in.body, in.header = good, map[string]string{"Content-Type": "text/plain"}
		s.do(t, in).refused(t, 415, code, "Content-Type")
		in.header, in.body = nil, strings.Repeat(" ", 256<<10+1)
		s.do(t, in).refused(t, 413, code, "262144")
	}
}

func TestBadPathParametersOnEveryRoute(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	for _, in := range surface {
		for _, param := range []string{"{ref}", "{subRef}", "{id}", "{secretId}"} {
			if !strings.Contains(in.path, param) || in.ofFeeds() {
				continue
			}
			bad := in
			bad.path = strings.Replace(in.path, param, "a%20b", 1)
			code := "INVALID_PARAMS"
			if in.method == "PUT" {
				code = "VALIDATION_FAILED"
			}
			got := s.do(t, fill(bad, "{ref}", "crm"))
			if param == "{secretId}" { // no secret has such an id
				got.refused(t, 404, "NOT_FOUND", "not found")
				continue
			}
			got.refused(t, 400, code, strings.Trim(param, "{}")+" must be a UUID")
		}
	}
}

func TestUnknownQueryParametersOnEveryList(t *testing.T) {
	s := serve(t)
	s.destination(t, "unknown")
	for _, in := range surface {
		if in.method == "GET" && !in.ofFeeds() {
			s.get(t, fill(in).path+"?colour=red").refused(t, 400, "INVALID_QUERY", "colour is not a known query parameter")
		}
	}
}

func TestWrongMethodsAndRoutesOnEveryPath(t *testing.T) {
	s := serve(t)
	taken := map[string]bool{}
	for _, in := range surface {
		taken[in.method+" "+fill(in).path] = true
	}
	for _, in := range surface {
		path := fill(in).path
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "PROPFIND"} {
			at := strings.Replace(path, "/validate", "/unknown", 1) // GET /events/destinations/validate is of that name
			if taken[method+" "+path] || taken[method+" "+at] {
				continue
			}
			got := s.do(t, request{method: method, path: path})
			got.refused(t, 404, "NOT_FOUND", "this path does not take ")
			if got.header.Get("Allow") == "" && method != "PROPFIND" && method != "TRACE" {
				t.Errorf("%s %s: the answer names no methods that are allowed", method, path)
			}
		}
		for _, more := range []string{"/", "/more/and/more/and/more", "//"} {
			s.do(t, request{method: in.method, path: path + more}).refused(t, 404, "NOT_FOUND", "no such route")
		}
	}
	for _, path := range []string{"/events", "/events/nowhere", "/", "/feeds", "/v9/feeds/events", "/eventsx"} {
		s.get(t, path).refused(t, 404, "NOT_FOUND", "no such route")
	}
	assert.Equal(t, s.delete(t, destinationsPath).header.Get("Allow"), "GET, POST", "Allow")
	assert.Equal(t, s.do(t, request{method: "HEAD", path: "/events/types"}).status, http.StatusOK, "HEAD /events/types")
}

// Things of other organizations can't be distinguished from unknown ones, nor changed.
func TestOthersThingsDoNotExist(t *testing.T) {
	s := serve(t)
	theirs, feed := s.destination(t, "crm"), s.filledFeed(t)
	subscription := into[idView](t, 201, s.put(t, destinationsPath+"/crm/subscriptions/all", allOf))
	delivery := s.delivery(t, theirs.ID)
	known := append(feed.pairs(), "/events/events/{id}", s.eventPath(t, delivery),
		"{subRef}", subscription.ID, "{id}", delivery, "{secretId}", theirs.Secrets[0].ID)
	streams := []string{"destination-" + theirs.ID, "feed-" + feed.feed, "item-" + feed.item}
	written := func() (all []string) {
		for _, stream := range streams {
			all = append(all, s.EventTypes(t, stream)...)
		}
		return all
	}
	before := written()
	_, mine := s.Organization(t, "Library")
	for ref, unknown := range map[string]string{"crm": "unknown", theirs.ID: uuid.NewString()} {
		for _, in := range surface {
			if !strings.Contains(in.path, "{") || in.method == "PUT" && in.path == onePath && ref == "crm" {
				continue // the last would create my own
			}
			in.key = mine
			got := s.do(t, fill(in, append(known, "{ref}", ref)...))
			// Sources have no owner.
			want := s.do(t, fill(in, "{ref}", unknown, "{subRef}", uuid.NewString(), "{source}", feed.source))
			assert.True(t, got.status == http.StatusNotFound && got.body == want.body && want.status == got.status,
				"%s %s: %d %s\nof a missing one: %d %s", in.method, in.path, got.status, got.body, want.status, want.body)
		}
	}
	after := written()
	assert.True(t, slices.Equal(before, after), "another organization wrote: %v became %v", before, after)
	page := into[page[any]](t, 200, s.as(mine).get(t, destinationsPath))
	assert.Equal(t, page.Total, 0, "another organization sees … destinations")
}

// Organizations that a feed is shared with read it, give feedback, and change nothing.
func TestReadersOfSharedFeed(t *testing.T) {
	s := serve(t)
	w := s.filledFeed(t)
	reader := s.share(t, w.feed)
	for _, in := range surface {
		if !in.ofFeeds() || !strings.Contains(in.path, "{") {
			continue
		}
		in.key = reader
		got := s.do(t, fill(in, w.pairs()...))
		if in.method == "GET" || strings.HasSuffix(in.path, "/feedback") {
			got.into(t, 200, new(any))
			continue
		}
		got.refused(t, 403, "FORBIDDEN", "only the organization that owns the feed may change it")
	}
}

func TestPostgresGoneOnEveryRoute(t *testing.T) {
	s := serve(t)
	s.rewire(t, func(p *httpapi.Dependencies) { p.Queries = &query.Queries{Pool: gone(t)} })
	for _, in := range surface {
		s.do(t, fill(in)).refused(t, 503, "SERVICE_UNAVAILABLE", "the request itself was fine")
	}
}
