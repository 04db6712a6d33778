package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

func TestBadBodiesAreRefusedByName(t *testing.T) {
	s := serve(t)
	const wholeFeed, invalid = `"description":"y"`, "not valid JSON"
	for body, want := range map[string][2]string{
		" ":                                 {"body", "is empty"},
		"name=x":                            {"body", invalid},
		`{"name":"x"`:                       {"body", invalid},
		`{"name":"x","description":"y"} {}`: {"body", invalid},
		`[]`:                                {"body", "must be an object, not an array"},
		`null`:                              {"body", "must be an object, not null"},
		"{\"name\":\"\xff\",\"description\":\"y\"}":                        {"body", invalid},
		`{"name":"\ud800",` + wholeFeed + `}`:                              {"body", invalid},
		`{` + wholeFeed + `}`:                                              {"name", "name is required"},
		`{"name":"",` + wholeFeed + `}`:                                    {"name", "must not be empty"},
		`{"name":" \n",` + wholeFeed + `}`:                                 {"name", "must not be empty"},
		`{"name":"a\u0000b",` + wholeFeed + `}`:                            {"name", "NUL"},
		`{"name":null,` + wholeFeed + `}`:                                  {"name", "must not be null"},
		`{"name":1,` + wholeFeed + `}`:                                     {"name", "must be a string, not a number"},
		`{"name":"x","name":"y",` + wholeFeed + `}`:                        {"name", "is given twice"},
		`{"name":"` + strings.Repeat("é", 256) + `",` + wholeFeed + `}`:    {"name", "must have at most"},
		`{"name":"x","description":"` + strings.Repeat("é", 10_001) + `"}`: {"description", "must have at most"},
		`{"name":"x","enabled":"yes",` + wholeFeed + `}`:                   {"enabled", "must be a boolean, not a string"},
		`{"name":"x","config":7,` + wholeFeed + `}`:                        {"config", "must be an object, not a number"},
		`{"name":"x","config":{"version":"1"},` + wholeFeed + `}`: {"config.version",
			"must be a number, not a string"},
		`{"name":"x","colour":"red",` + wholeFeed + `}`: {"colour", "not a known field"},
		`{"Name":"x",` + wholeFeed + `}`:                {"Name", "not a known field"},
	} {
		s.post(t, feedsPath, body).blames(t, want[0], want[1])
	}
	for name, value := range map[string]string{
		"Content-Type":     "text/plain",
		"content-type":     "",
		"CONTENT-TYPE":     "application/json; charset=utf-16",
		"Content-Encoding": "gzip",
	} {
		in := request{method: "POST", path: feedsPath, body: `{}`}
		in.header = map[string]string{name: value}
		s.do(t, in).refused(t, 415, "BAD_REQUEST", http.CanonicalHeaderKey(name))
	}
	const url = `"config":{"url":"https://example.org"`
	for body, message := range map[string]string{
		`{"name":"x","config":{"uri":"https://example.org"}}`:   "config.uri is not a known field",
		`{"name":"x",` + url + `,"headers":{"a":1}}}`:           "config.headers.a must be a string",
		`{"name":"x",` + url + `,"headers":{"a":null}}}`:        "config.headers.a must not be null",
		`{"name":"x",` + url + `,"headers":{"a":"1","a":"2"}}}`: "config.headers.a is given twice",
		`{"":1}`: `"" is not a known field`,
		`{"name":"x",` + url + `},"debounceWindowSeconds":1.5}`:   "debounceWindowSeconds must be an integer",
		`{"name":"x",` + url + `},"debounceWindowSeconds":86401}`: "debounceWindowSeconds must be",
		`{"name":"x",` + url + `},"debounceWindowSeconds":1e30}`:  "debounceWindowSeconds must be an integer",
		`{"name":"x"}`:             "config is required",
		`{"name":"x","config":{}}`: "config.url is required",
		`{"name":"` + strings.Repeat("x", 256) + `",` + url + `}}`:          "name must",
		`{"name":"x","transport":"smtp",` + url + `}}`:                      "transport must be one of webhook",
		`{"name":"x","secret":"whsec_dG9vIHNob3J0",` + url + `}}`:           "secret must be whsec_",
		`{"name":"x","externalId":"a b",` + url + `}}`:                      "externalId must be",
		`{"name":"x","externalId":"` + uuid.NewString() + `",` + url + `}}`: "externalId must not",
		`{"` + strings.Repeat("x", 100_000) + `":1}`:                        "xxx… is not a known field",
	} {
		s.post(t, destinationsPath, body).refused(t, 400, "INVALID_BODY", message)
	}
	list := into[[]any](t, 200, s.get(t, feedsPath))
	assert.Equal(t, len(list), 0, "a refused request left %v", list)
}

func TestBodyOfUnknownLengthIsLimitedToo(t *testing.T) {
	s := serve(t)
	body := io.MultiReader(strings.NewReader(strings.Repeat(" ", 256<<10+1)))
	r := s.request(t, request{method: "POST", path: destinationsPath}, body)
	r.Header.Set("Content-Type", "application/json")
	must.Equal(t, r.ContentLength, -1, "the length is known to be")
	serveTo(s.api, r).refused(t, 413, "INVALID_BODY", "262144")
	exact := `{"name":"x","description":"y"}`
	exact += strings.Repeat(" ", 256<<10-len(exact))
	if got := s.post(t, "/feeds/events", exact); got.status != http.StatusCreated {
		t.Errorf("a body of exactly the limit: %d %s", got.status, got.body)
	}
}

func TestBadParametersAreRefusedByName(t *testing.T) {
	s := serve(t)
	s.post(t, "/events/destinations", destinationBody(t, `"externalId":"crm",`)).into(t, 201, new(any))
	for path, want := range map[string]string{
		"destinations?page=2":                                         "page is not a known query parameter: use limit",
		"destinations?limit=0":                                        "limit must be a whole number from 1 to 100",
		"destinations?limit=101":                                      "limit must",
		"destinations?limit=+5":                                       "limit must",
		"destinations?limit=":                                         "limit must",
		"destinations?limit=1&limit=2":                                "limit is given twice",
		"destinations?offset=1e3":                                     "offset must be a whole number",
		"destinations?offset=-1":                                      "offset must be a whole number of at least 0",
		"destinations?limit=%zz":                                      "query is not",
		"destinations/crm?verbose=1":                                  "this route takes none",
		"types?x=1":                                                   "x is not",
		"destinations/a%20b":                                          "ref must be",
		"destinations/..%2fx":                                         "ref must be",
		"destinations/%ff":                                            "ref must be",
		"destinations/" + strings.Repeat("x", 256):                    "ref must be",
		"deliveries/crm":                                              "id must be a UUID",
		"destinations/crm/deliveries?status=done":                     "a comma-separated list of: pending, delivering",
		"destinations/crm/deliveries?type=news*":                      "type must be exact types",
		"destinations/crm/deliveries?type=":                           "type must be exact types",
		"destinations/crm/deliveries?feedId=7":                        "feedId must be a UUID",
		"destinations/crm/deliveries?since=2026-11-21":                "since must be an ISO 8601 time with Z",
		"destinations/crm/deliveries?until=2026-11-21T10:00:00":       "until must be",
		"destinations/crm/deliveries?until=9999-12-31T23:59:59-01:00": "until must be",
		"destinations?=1":                                             `"" is not a known query parameter`,
		"destinations/crm/deliveries?since=2026-11-21T10:00Z&until=2026-11-21T09:00Z": "since must not be after until",
		"deliveries?offset=1":      "offset is not a known query parameter: use status, type, feedId, eventId",
		"deliveries?eventId=x":     "eventId must be a UUID",
		"deliveries?destination=":  "destination must be a UUID or an externalId",
		"deliveries?until=x":       "until must be an ISO 8601 time",
		"deliveries?until=x~y":     "pagination.until of the page before",
		"deliveries?limit=101":     "limit must be a whole number from 1 to 100",
		"deliveries?status=broken": "a comma-separated list of: pending, delivering",
		"deliveries?since=2026-01-02T00:00:00Z&until=2026-01-01T00:00:00Z~" + missing: "since must not be after until",
		"events?subject=":                       "subject must be",
		"events?type=*x":                        "type must be",
		"events?q=x":                            "q is not a known query parameter",
		"events/" + missing + "?received=maybe": "must be one of true, false",
		"metrics?interval=2h":                   "interval",
		"metrics?from=soon":                     "from",
		"metrics?reason=late":                   "reason",
		"metrics?type=one%20two":                "type",
		"metrics?from=2026-01-02T00:00:00Z&to=2026-01-01T00:00:00Z":             "from must be before",
		"metrics?from=2020-01-01T00:00:00Z&to=2026-01-01T00:00:00Z&interval=5m": "at most 1000 intervals",
	} {
		code := "INVALID_PARAMS"
		if strings.Contains(path, "?") {
			code = "INVALID_QUERY"
		}
		s.get(t, "/events/"+path).refused(t, 400, code, want)
	}
	for _, path := range []string{
		"/events/destinations/crm", "/events/destinations?limit=1&offset=0",
		"/events/destinations/crm/deliveries?type=news.*&since=2026-11-21T10:00:00%2B02:00&until=2026-11-21T10:00Z",
		"/events/destinations/crm/deliveries?since=2026-11-21T10:00:00+02:00", // the + was not escaped
	} {
		s.get(t, path).into(t, 200, new(any))
	}
	for _, path := range []string{"destinations/unknown", "destinations/" + missing, "deliveries?destination=unknown"} {
		s.get(t, "/events/"+path).refused(t, 404, "NOT_FOUND", "destination not found")
	}
	escaped := strings.ReplaceAll(uuid.NewString(), "-", "%2D") // the same as without the escapes
	s.get(t, "/events/deliveries/"+escaped).refused(t, 404, "NOT_FOUND", "delivery not found")
	s.get(t, "/events/deliveries/"+uuid.NewString()).refused(t, 404, "NOT_FOUND", "delivery not found")
	s.get(t, "/feeds/events/nonsense").refused(t, 404, "NOT_FOUND", "not found")
}

func TestNothingSecretIsLogged(t *testing.T) {
	s := serve(t)
	s.do(t, request{
		method: "POST",
		path:   "/events/destinations?limit=hunter2",
		body:   destinationBody(t, `"hunter2":1,`),
		header: map[string]string{"Cookie": "hunter2"},
	})
	s.as("ck_hunter2").get(t, "/events/types")
	s.post(t, "/feeds/events", `{"name":"kept","description":"hunter3"}`).into(t, 201, new(any))
	log := s.logged(t)
	for _, secret := range []string{s.key, s.key[12:], "ck_hunter2", "hunter3", "Cookie"} {
		assert.True(t, !strings.Contains(log, secret), "the log shows %q", secret)
	}
	for _, wanted := range []string{"path=/feeds/events", "status=201", "organization=" + s.org.String(),
		"key=" + s.key[3:11], "request="} {
		assert.True(t, strings.Contains(log, wanted), "the log lacks %q", wanted)
	}
}

func TestRequestIDsComeBack(t *testing.T) {
	s := serve(t)
	mine := uuid.NewString()
	got := s.do(t, request{path: "/events/types", header: map[string]string{"X-Request-Id": mine}})
	assert.Equal(t, got.header.Get("X-Request-Id"), mine, "request id … want my own")
	got = s.do(t, request{path: "/events/types", key: "none", header: map[string]string{"X-Request-Id": "x\ny"}})
	if _, err := uuid.Parse(got.header.Get("X-Request-Id")); err != nil {
		t.Errorf("request id = %q", got.header.Get("X-Request-Id"))
	}
}

func TestIntegersInEveryNotation(t *testing.T) {
	s := serve(t)
	s.destination(t, "crm")
	path := destinationsPath + "/crm"
	for text, want := range map[string]int{"7": 7, "7.0": 7, "7e0": 7, "0.7e1": 7, "-0.0": 0, "86400.000": 86400} {
		var shown struct {
			Debounce int `json:"debounceWindowSeconds"`
		}
		s.patch(t, path, `{"debounceWindowSeconds":`+text+`}`).into(t, 200, &shown)
		assert.Equal(t, shown.Debounce, want, "%s", text)
	}
	for _, text := range []string{"7.5", "1e-1", "1e300", "9007199254740993.0", `"7"`, "null"} {
		got := s.patch(t, path, `{"debounceWindowSeconds":`+text+`}`)
		got.refused(t, 400, "INVALID_BODY", "debounceWindowSeconds must")
	}
}

func TestKeyIsCheckedBeforeAnythingElse(t *testing.T) {
	s := serve(t)
	c := s.clock(t)
	expires := c.now().Add(time.Hour)
	expired := s.IssueKey(t, s.org, &expires)
	revoked := s.IssueKey(t, s.org, nil)
	s.revoke(t, revoked)
	c.pass(time.Hour - time.Millisecond)
	if got := s.as(expired).get(t, "/feeds/events"); got.status != http.StatusOK {
		t.Fatalf("before the key expires: %d %s", got.status, got.body)
	}
	c.pass(time.Millisecond) // its cached state does not help

	headers := map[string][]string{
		"missing":            nil,
		"another scheme":     {"Basic " + s.key},
		"no scheme":          {s.key},
		"wrong form":         {"Bearer ck_short"},
		"wrong secret":       {"Bearer " + s.key[:12] + strings.Repeat("0", 43)},
		"unknown":            {"Bearer ck_00000000_" + strings.Repeat("0", 43)},
		"two":                {"Bearer " + s.key, "Bearer " + s.key},
		"expired":            {"Bearer " + expired},
		"revoked":            {"Bearer " + revoked},
		"trailing rubbish":   {"Bearer " + s.key + "x"},
		"two keys in one":    {"Bearer " + s.key + " " + s.key},
		"empty bearer token": {"Bearer "},
	}
	for name, values := range headers {
		for _, route := range []request{{method: "POST", path: destinationsPath}, {method: "POST", path: feedsPath}} {
			s.refusesKey(t, route, values...)
			must.True(t, !t.Failed(), "%s key, %s %s", name, route.method, route.path)
		}
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	s := serve(t)
	tests := map[string]struct {
		peer, proto string
		status      int
	}{
		"this machine":          {"127.0.0.1:1", "", 200},
		"another peer":          {"192.0.2.1:1", "https", 401},
		"a trusted proxy":       {"203.0.113.9:1", "https", 200},
		"a trusted proxy, http": {"203.0.113.9:1", "http", 401},
	}
	for name, tt := range tests {
		for path, code := range map[string][2]string{
			"/events/types": {"AUTHENTICATION_FAILED", "https"},
			"/feeds/events": {"UNAUTHORIZED", "Invalid or missing API key"},
		} {
			in := request{path: path, peer: tt.peer}
			if tt.proto != "" {
				in.header = map[string]string{"X-Forwarded-Proto": tt.proto}
			}
			got := s.do(t, in)
			assert.Equal(t, got.status, tt.status, "%s: GET %s answered … %s", name, path, got.body)
			if tt.status == http.StatusUnauthorized {
				got.refused(t, 401, code[0], code[1])
			}
		}
	}
}

// Over a real connection: a caller that waits for "100 Continue" gets the refusal instead, and never sends its body.
func TestUnauthenticatedBodyIsNotAskedFor(t *testing.T) {
	s := serve(t)
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/feeds/events", unreadable{t}))(t)
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = 10
	transport := &http.Transport{ExpectContinueTimeout: apitest.Patience}
	t.Cleanup(transport.CloseIdleConnections)
	status, body := apitest.Ask(t, &http.Client{Transport: transport}, r)
	assert.True(t, status == http.StatusUnauthorized, "answered %d %s", status, body)
}

// clock moves only when a test says so.
type clock struct{ nanoseconds atomic.Int64 }

// clock makes the API again, on a clock that stands still at the present time.
func (s *server) clock(t *testing.T) *clock {
	t.Helper()
	c := new(clock)
	c.nanoseconds.Store(time.Now().UnixNano())
	s.rewire(t, func(p *httpapi.Dependencies) { p.Now = c.now })
	return c
}

func (c *clock) now() time.Time { return time.Unix(0, c.nanoseconds.Load()) }

func (c *clock) pass(d time.Duration) { c.nanoseconds.Add(int64(d)) }

// unreadable is a body that must not be read.
type unreadable struct{ t *testing.T }

func (u unreadable) Read([]byte) (int, error) {
	u.t.Error("the body was read before the key was checked")
	return 0, io.EOF
}

func TestKeyIsCheckedBeforeTheBodyOnEveryRoute(t *testing.T) {
	s := serve(t)
	for _, in := range append([]request{
		{method: "POST", path: "/events/nowhere"}, {method: "PATCH", path: "/events/types"},
		{method: "POST", path: "/feeds/nowhere"}, {method: "PUT", path: feedsPath},
		{method: "GET", path: "/nowhere"}, {method: "PROPFIND", path: destinationsPath},
	}, surface...) {
		for _, header := range []string{"", "Bearer nonsense", "Basic eDp5", "Bearer " + strings.Repeat("k", 61), s.key} {
			s.refusesKey(t, fill(in), header)
		}
	}
}

// refusesKey sends a request with headers that hold no key, and a body that must not be read.
func (s *server) refusesKey(t *testing.T, in request, headers ...string) {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), in.method, in.path, unreadable{t})
	r.ContentLength = 1 << 40 // nor is its size looked at
	r.RemoteAddr = "127.0.0.1:40000"
	r.Header.Set("Content-Type", "text/plain")
	r.Header["Authorization"] = headers
	code, message := "AUTHENTICATION_FAILED", ""
	if !strings.HasPrefix(in.path, "/events") {
		code, message = "UNAUTHORIZED", "Invalid or missing API key"
	}
	serveTo(s.contract, r).refused(t, 401, code, message)
}
