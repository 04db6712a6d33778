package httpapi_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

func TestBadBodiesAreRefusedByName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	const feeds, destinations = "/feeds/events", "/events/destinations"
	tests := map[string]struct {
		path, body, field, message string
		header                     map[string]string
		status                     int // 400 where 0
	}{
		"empty": {
			path:    feeds,
			body:    " ",
			field:   "body",
			message: "is empty",
		},
		"no JSON": {
			path:    feeds,
			body:    "name=x",
			field:   "body",
			message: "not valid JSON",
		},
		"cut off": {
			path:    feeds,
			body:    `{"name":"x"`,
			field:   "body",
			message: "not valid JSON",
		},
		"trailing data": {
			path:    feeds,
			body:    `{"name":"x","description":"y"} {}`,
			field:   "body",
			message: "not valid JSON",
		},
		"array": {
			path:    feeds,
			body:    `[]`,
			field:   "body",
			message: "must be an object, not an array",
		},
		"null": {
			path:    feeds,
			body:    `null`,
			field:   "body",
			message: "must be an object, not null",
		},
		"missing": {
			path:    feeds,
			body:    `{"description":"y"}`,
			field:   "name",
			message: "name is required",
		},
		"empty text": {
			path:    feeds,
			body:    `{"name":"","description":"y"}`,
			field:   "name",
			message: "must not be empty",
		},
		"blank text": {
			path:    feeds,
			body:    `{"name":" \n","description":"y"}`,
			field:   "name",
			message: "must not be empty",
		},
		"NUL": {
			path:    feeds,
			body:    `{"name":"a\u0000b","description":"y"}`,
			field:   "name",
			message: "NUL",
		},
		"null member": {
			path:    feeds,
			body:    `{"name":null,"description":"y"}`,
			field:   "name",
			message: "must not be null",
		},
		"wrong type": {
			path:    feeds,
			body:    `{"name":1,"description":"y"}`,
			field:   "name",
			message: "must be a string, not a number",
		},
		"wrong boolean": {
			path:    feeds,
			body:    `{"name":"x","description":"y","enabled":"yes"}`,
			field:   "enabled",
			message: "must be a boolean, not a string",
		},
		"wrong object": {
			path:    feeds,
			body:    `{"name":"x","description":"y","config":7}`,
			field:   "config",
			message: "must be an object, not a number",
		},
		"wrong nested": {
			path:    feeds,
			body:    `{"name":"x","description":"y","config":{"version":"1"}}`,
			field:   "config.version",
			message: "must be a number, not a string",
		},
		"unknown": {
			path:    feeds,
			body:    `{"name":"x","description":"y","colour":"red"}`,
			field:   "colour",
			message: "not a known field",
		},
		"wrong case": {
			path:    feeds,
			body:    `{"Name":"x","description":"y"}`,
			field:   "Name",
			message: "not a known field",
		},
		"twice": {
			path:    feeds,
			body:    `{"name":"x","name":"y","description":"z"}`,
			field:   "name",
			message: "is given twice",
		},
		"bad UTF-8": {
			path:    feeds,
			body:    "{\"name\":\"\xff\",\"description\":\"y\"}",
			field:   "body",
			message: "not valid JSON",
		},
		"lone surrogate": {
			path:    feeds,
			body:    `{"name":"\ud800","description":"y"}`,
			field:   "body",
			message: "not valid JSON",
		},
		"other content type": {
			path:    feeds,
			body:    `{}`,
			header:  map[string]string{"Content-Type": "text/plain"},
			field:   "Content-Type",
			status:  415,
			message: "Content-Type must be application/json",
		},
		"no content type": {
			path:    feeds,
			body:    `{}`,
			header:  map[string]string{"Content-Type": ""},
			field:   "Content-Type",
			status:  415,
			message: "Content-Type must be application/json",
		},
		"other charset": {
			path:    feeds,
			body:    `{}`,
			header:  map[string]string{"Content-Type": "application/json; charset=utf-16"},
			field:   "Content-Type",
			status:  415,
			message: "Content-Type",
		},
		"encoded": {
			path:    feeds,
			body:    `{}`,
			header:  map[string]string{"Content-Encoding": "gzip"},
			field:   "Content-Encoding",
			status:  415,
			message: "Content-Encoding",
		},
		"too large": {
			path:    feeds,
			body:    `{"name":"` + strings.Repeat("x", 256<<10) + `"}`,
			field:   "body",
			status:  413,
			message: "262144",
		},
		"unknown in config": {
			path:    destinations,
			body:    `{"name":"x","config":{"uri":"https://example.org"}}`,
			message: "config.uri is not a known field",
		},
		"wrong header value": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org","headers":{"a":1}}}`,
			message: "config.headers.a must be a string",
		},
		"header value null": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org","headers":{"a":null}}}`,
			message: "config.headers.a must not be null",
		},
		"member without name": {path: destinations, body: `{"":1}`, message: `"" is not a known field`},
		"header twice": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org","headers":{"a":"1","a":"2"}}}`,
			message: "config.headers.a is given twice",
		},
		"fraction": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org"},"debounceWindowSeconds":1.5}`,
			message: "debounceWindowSeconds must be an integer",
		},
		"out of range": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org"},"debounceWindowSeconds":86401}`,
			message: "debounceWindowSeconds must be",
		},
		"far out of range": {
			path:    destinations,
			body:    `{"name":"x","config":{"url":"https://example.org"},"debounceWindowSeconds":1e30}`,
			message: "debounceWindowSeconds must be an integer",
		},
		"config missing": {path: destinations, body: `{"name":"x"}`, message: "config is required"},
		"url missing":    {path: destinations, body: `{"name":"x","config":{}}`, message: "config.url is required"},
		"name too long": {
			path:    destinations,
			body:    `{"name":"` + strings.Repeat("x", 256) + `","config":{"url":"https://example.org"}}`,
			message: "name must",
		},
		"other transport": {
			path:    destinations,
			body:    `{"name":"x","transport":"smtp","config":{"url":"https://example.org"}}`,
			message: "transport must be one of webhook",
		},
		"externalId": {
			path:    destinations,
			body:    `{"name":"x","externalId":"a b","config":{"url":"https://example.org"}}`,
			message: "externalId must be",
		},
		"externalId is a UUID": {
			path:    destinations,
			body:    `{"name":"x","externalId":"` + uuid.NewString() + `","config":{"url":"https://example.org"}}`,
			message: "externalId must not",
		},
		"very long member": {
			path:    destinations,
			body:    `{"` + strings.Repeat("x", 100_000) + `":1}`,
			message: "xxx… is not a known field",
		},
	}
	for name, tt := range tests {
		got := s.do(t, request{
			method: "POST",
			path:   tt.path,
			body:   tt.body,
			header: tt.header,
		})
		status := max(tt.status, 400)
		code := "BAD_REQUEST"
		if tt.path == destinations {
			code = "INVALID_BODY"
		}
		got.refused(t, status, code, tt.message)
		details := got.problem(t).Error.Details
		if wanted := tt.path == feeds; wanted != (details != nil) ||
			wanted && (details.Field != tt.field || details.Issue == "") {
			t.Errorf("%s: details = %+v, want those of %q", name, details, tt.field)
		}
	}
	var list []any
	s.do(t, request{path: feeds}).into(t, 200, &list)
	if len(list) != 0 {
		t.Errorf("a refused request left %v", list)
	}
}

func TestBodyOfUnknownLengthIsLimitedToo(t *testing.T) {
	t.Parallel()
	s := serve(t)
	got := s.do(t, request{
		method: "POST",
		path:   "/events/destinations",
		body:   strings.Repeat(" ", 256<<10+1),
		header: map[string]string{"Transfer-Encoding": "chunked"},
	})
	got.refused(t, 413, "INVALID_BODY", "262144")
	exact := `{"name":"x","description":"y"}`
	exact += strings.Repeat(" ", 256<<10-len(exact))
	if got := s.do(t, request{method: "POST", path: "/feeds/events", body: exact}); got.status != http.StatusCreated {
		t.Errorf("a body of exactly the limit: %d %s", got.status, got.body)
	}
}

func TestUnknownRoutesAndMethods(t *testing.T) {
	t.Parallel()
	s := serve(t)
	for path, code := range map[string]string{
		"/events": "NOT_FOUND", "/events/nowhere": "NOT_FOUND", "/events/destinations/": "NOT_FOUND",
		"/events/destinations/a/b/c/d": "NOT_FOUND",
		"/":                            "NOT_FOUND", "/feeds": "NOT_FOUND", "/feeds/events/": "NOT_FOUND",
		"/v9/feeds/events": "NOT_FOUND", "/eventsx": "NOT_FOUND",
	} {
		for _, method := range []string{"GET", "POST", "PROPFIND"} {
			s.do(t, request{method: method, path: path}).refused(t, 404, code, "no such route")
		}
	}
	for path, allow := range map[string]string{
		"/events/destinations": "GET, POST",
		"/feeds/events":        "GET, POST",
		"/events/types":        "GET",
	} {
		got := s.do(t, request{method: "DELETE", path: path})
		got.refused(t, 404, "NOT_FOUND", "DELETE")
		if got.header.Get("Allow") != allow {
			t.Errorf("DELETE %s: Allow: %s, want %s", path, got.header.Get("Allow"), allow)
		}
	}
	if got := s.do(t, request{method: "HEAD", path: "/events/types"}); got.status != http.StatusOK {
		t.Errorf("HEAD /events/types: %d", got.status)
	}
}

func TestBadParametersAreRefusedByName(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do(t, request{method: "POST", path: "/events/destinations", body: destinationBody(t, `"externalId":"crm",`)}).into(t,
		201, new(any))
	for path, want := range map[string][2]string{
		"/events/destinations?page=2": {"INVALID_QUERY",
			"page is not a known query parameter: use limit, offset"},
		"/events/destinations?limit=0": {"INVALID_QUERY",
			"limit must be a whole number from 1 to 100"},
		"/events/destinations?limit=101":       {"INVALID_QUERY", "limit must"},
		"/events/destinations?limit=+5":        {"INVALID_QUERY", "limit must"},
		"/events/destinations?limit=":          {"INVALID_QUERY", "limit must"},
		"/events/destinations?limit=1&limit=2": {"INVALID_QUERY", "limit is given twice"},
		"/events/destinations?offset=-1": {"INVALID_QUERY",
			"offset must be a whole number of at least 0"},
		"/events/destinations?limit=%zz": {"INVALID_QUERY",
			"query is not"},
		"/events/destinations/crm?verbose=1": {"INVALID_QUERY",
			"this route takes none"},
		"/events/types?x=1": {"INVALID_QUERY",
			"x is not"},
		"/events/destinations/a%20b": {"INVALID_PARAMS",
			"ref must be"},
		"/events/destinations/..%2fx": {"INVALID_PARAMS",
			"ref must be"},
		"/events/destinations/%ff": {"INVALID_PARAMS",
			"ref must be"},
		"/events/destinations/" + strings.Repeat("x", 256): {"INVALID_PARAMS",
			"ref must be"},
		"/events/deliveries/crm": {"INVALID_PARAMS",
			"id must be a UUID"},
		"/events/destinations/crm/deliveries?status=done": {"INVALID_QUERY",
			"status must be a comma-separated list of: pending, delivering"},
		"/events/destinations/crm/deliveries?type=news*": {"INVALID_QUERY",
			"type must be an exact type"},
		"/events/destinations/crm/deliveries?type=": {"INVALID_QUERY",
			"type must be an exact type"},
		"/events/destinations/crm/deliveries?feedId=7": {"INVALID_QUERY",
			"feedId must be a UUID"},
		"/events/destinations/crm/deliveries?since=2026-11-21": {"INVALID_QUERY",
			"since must be an ISO 8601 time with Z or an offset"},
		"/events/destinations/crm/deliveries?until=2026-11-21T10:00:00":       {"INVALID_QUERY", "until must be"},
		"/events/destinations/crm/deliveries?until=9999-12-31T23:59:59-01:00": {"INVALID_QUERY", "until must be"},
		"/events/destinations?=1": {"INVALID_QUERY", `"" is not a known query parameter`},
		"/events/destinations/crm/deliveries?since=2026-11-21T10:00:00Z&until=2026-11-21T09:00:00Z": {"INVALID_QUERY",
			"since must not be after until"},
	} {
		s.do(t, request{path: path}).refused(t, 400, want[0], want[1])
	}
	for _, path := range []string{
		"/events/destinations/crm", "/events/destinations?limit=1&offset=0",
		"/events/destinations/crm/deliveries?type=news.*&since=2026-11-21T10:00:00%2B02:00&until=2026-11-21T10:00Z",
		"/events/destinations/crm/deliveries?since=2026-11-21T10:00:00+02:00", // the + was not escaped
	} {
		s.do(t, request{path: path}).into(t, 200, new(any))
	}
	s.do(t, request{path: "/events/destinations/unknown"}).refused(t, 404, "NOT_FOUND", "destination not found")
	s.do(t, request{path: "/events/destinations/" + uuid.NewString()}).refused(t, 404, "NOT_FOUND",
		"destination not found")
	escaped := strings.ReplaceAll(uuid.NewString(), "-", "%2D") // the same as without the escapes
	s.do(t, request{path: "/events/deliveries/" + escaped}).refused(t, 404, "NOT_FOUND", "delivery not found")
	s.do(t, request{path: "/events/deliveries/" + uuid.NewString()}).refused(t, 404, "NOT_FOUND", "delivery not found")
	s.do(t, request{path: "/feeds/events/nonsense"}).refused(t, 404, "NOT_FOUND", "not found")
}

func TestNothingSecretIsLogged(t *testing.T) {
	t.Parallel()
	s := serve(t)
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations?limit=hunter2",
		body:   destinationBody(t, `"hunter2":1,`),
		header: map[string]string{"Cookie": "hunter2"},
	})
	s.do(t, request{path: "/events/types", key: "ck_hunter2"})
	s.do(t, request{method: "POST", path: "/feeds/events", body: `{"name":"kept","description":"hunter3"}`}).into(t,
		201, new(any))
	log := s.logged(t)
	for _, secret := range []string{s.key, s.key[12:], "ck_hunter2", "hunter3", "Cookie"} {
		if strings.Contains(log, secret) {
			t.Errorf("the log shows %q", secret)
		}
	}
	for _, wanted := range []string{"path=/feeds/events", "status=201", "organization=" + s.org.String(),
		"key=" + s.key[3:11], "request="} {
		if !strings.Contains(log, wanted) {
			t.Errorf("the log lacks %q", wanted)
		}
	}
}

func TestRequestIDsComeBack(t *testing.T) {
	t.Parallel()
	s := serve(t)
	mine := uuid.NewString()
	got := s.do(t, request{path: "/events/types", header: map[string]string{"X-Request-Id": mine}})
	if got.header.Get("X-Request-Id") != mine {
		t.Errorf("request id = %q, want my own", got.header.Get("X-Request-Id"))
	}
	got = s.do(t, request{path: "/events/types", key: "none", header: map[string]string{"X-Request-Id": "x\ny"}})
	if _, err := uuid.Parse(got.header.Get("X-Request-Id")); err != nil {
		t.Errorf("request id = %q", got.header.Get("X-Request-Id"))
	}
}
