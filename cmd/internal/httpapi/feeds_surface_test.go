package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/query"
)

// feedSurface is every route of the feeds, each with a request that is in order.
var feedSurface = []request{
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
	{method: "DELETE", path: feedsPath + "/{id}"}, // deletions come last
}

// world holds the values of the routes' parameters.
type world struct{ feed, item, association, source string }

// nothing is there.
func nothing() world {
	return world{uuid.NewString(), uuid.NewString(), uuid.NewString(), uuid.NewString()}
}

// in puts the parameters into a request.
func (w world) in(r request) request {
	fill := strings.NewReplacer("{id}", w.feed, "{feedId}", w.feed, "{itemId}", w.item, "{sourceId}", w.association,
		"{source}", w.source)
	r.path, r.body = fill.Replace(r.path), fill.Replace(r.body)
	return r
}

// filledFeed is a feed with one source and one item.
func (s *server) filledFeed(t *testing.T) world {
	t.Helper()
	source := s.site(t)
	s.observe(t, source, s.concert("Concert", tomorrow()))
	made, path := s.eventFeed(t)
	association := s.attach(t, path, source)
	return world{made.ID, s.items(t, path, 1)["Concert"], association, source.String()}
}

func TestFeedSurfaceIsWhole(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.allListed(t, feedSurface, func(route string) bool { return strings.Contains(route, "/feeds") })
	w := s.filledFeed(t)
	for _, in := range feedSurface { // so that no refusal below is about something else
		if got := s.do(t, w.in(in)); got.status >= 300 {
			t.Errorf("%s %s: %d %s", in.method, in.path, got.status, got.body)
		}
	}
}

func TestKeyIsCheckedBeforeTheBodyOnEveryFeedRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for _, in := range append([]request{{method: "POST", path: "/feeds/nowhere"}, {method: "PUT", path: feedsPath}},
		feedSurface...) {
		s.keyFirst(t, nothing().in(in), "UNAUTHORIZED", "Invalid or missing API key")
	}
}

func TestBadBodiesOnEveryFeedRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.filledFeed(t)
	for _, in := range feedSurface {
		if in.body == "" {
			continue
		}
		in = w.in(in)
		good := in.body
		for body, issue := range map[string]string{
			strings.Replace(good, "{", `{"colour":"red",`, 1): "colour is not a known field",
			`null`:  "body must be an object, not null",
			`{"cut`: "not valid JSON", `[]`: "must be an object", " ": "is empty", good + good: "not valid JSON",
		} {
			in.body = body
			got := s.do(t, in)
			got.refused(t, 400, "BAD_REQUEST", issue)
			if details := got.problem(t).Error.Details; details == nil || details.Field == "" || details.Issue == "" {
				t.Errorf("%s %s with %s: details = %+v", in.method, in.path, body, details)
			}
		}
		in.body = good
		in.header = map[string]string{"Content-Type": "text/plain"}
		s.do(t, in).refused(t, 415, "BAD_REQUEST", "Content-Type")
		in.header, in.body = nil, strings.Repeat(" ", 256<<10+1)
		s.do(t, in).refused(t, 413, "BAD_REQUEST", "262144")
	}
}

func TestWrongMethodsOnEveryFeedPath(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w, taken := nothing(), map[string]bool{}
	for _, in := range feedSurface {
		taken[in.method+" "+w.in(in).path] = true
	}
	for _, in := range feedSurface {
		path := w.in(in).path
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "PROPFIND"} {
			if !taken[method+" "+path] {
				s.do(t, request{method: method, path: path}).refused(t, 404, "NOT_FOUND", "")
			}
		}
		for _, more := range []string{"/", "/more/and/more/and/more", "//"} {
			s.do(t, request{method: in.method, path: path + more}).refused(t, 404, "NOT_FOUND", "no such route")
		}
	}
}

// Things of other organizations can't be distinguished from unknown ones, nor changed.
func TestOthersFeedsDoNotExist(t *testing.T) {
	t.Parallel()
	s := serve(t)
	theirs := s.filledFeed(t)
	_, mine := s.Organization(t, "Library")
	before := [][]string{s.EventTypes(t, "feed-"+theirs.feed), s.EventTypes(t, "item-"+theirs.item)}
	missing := nothing()
	missing.source = theirs.source // sources have no owner
	for _, in := range feedSurface {
		if !strings.Contains(in.path, "{") {
			continue
		}
		in.key = mine
		got, want := s.do(t, theirs.in(in)), s.do(t, missing.in(in))
		if got.status != http.StatusNotFound || want.status != got.status || got.body != want.body {
			t.Errorf("%s %s: %d %s\nof a missing one: %d %s", in.method, in.path, got.status, got.body, want.status, want.body)
		}
	}
	after := [][]string{s.EventTypes(t, "feed-"+theirs.feed), s.EventTypes(t, "item-"+theirs.item)}
	for i := range before {
		if len(before[i]) != len(after[i]) {
			t.Errorf("another organization wrote: %v became %v", before[i], after[i])
		}
	}
}

// Organizations that a feed is shared with read it, give feedback, and change nothing.
func TestReadersOfSharedFeed(t *testing.T) {
	t.Parallel()
	s := serve(t)
	w := s.filledFeed(t)
	reader := s.share(t, w.feed)
	for _, in := range feedSurface {
		if !strings.Contains(in.path, "{") {
			continue
		}
		in.key = reader
		got := s.do(t, w.in(in))
		if in.method == "GET" || strings.HasSuffix(in.path, "/feedback") {
			got.into(t, 200, new(any))
			continue
		}
		got.refused(t, 403, "FORBIDDEN", "only the organization that owns the feed may change it")
	}
}

func TestPostgresGoneOnEveryFeedRoute(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.rewire(t, func(p *httpapi.Dependencies) { p.Queries = &query.Queries{Pool: gone(t)} })
	for _, in := range feedSurface {
		s.do(t, nothing().in(in)).refused(t, 503, "SERVICE_UNAVAILABLE", "the request itself was fine")
	}
}
