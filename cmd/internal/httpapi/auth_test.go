package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
)

func TestKeyIsCheckedBeforeAnythingElse(t *testing.T) {
	s := serve(t)
	c := s.clock(t)
	expires := c.now().Add(time.Hour)
	expired := s.IssueKey(t, s.org, &expires)
	revoked := s.IssueKey(t, s.org, nil)
	id := strings.Split(revoked, "_")[1]
	changed := must.Get(s.Commands.RevokeKey(t.Context(), apitest.Operator,
		command.RevokeKey{Organization: s.org, KeyID: id}))(t)
	s.Await(t, changed.Position, organizations.ReadModel.Name)
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
		"wrong secret":       {"Bearer " + s.key[:len(s.key)-1] + flip(s.key[len(s.key)-1])},
		"unknown":            {"Bearer ck_00000000_" + strings.Repeat("0", 43)},
		"two":                {"Bearer " + s.key, "Bearer " + s.key},
		"expired":            {"Bearer " + expired},
		"revoked":            {"Bearer " + revoked},
		"trailing rubbish":   {"Bearer " + s.key + "x"},
		"two keys in one":    {"Bearer " + s.key + " " + s.key},
		"empty bearer token": {"Bearer "},
	}
	routes := []request{
		{method: "POST", path: "/events/destinations"}, {method: "GET", path: "/events/nowhere"},
		{method: "POST", path: "/feeds/events"}, {method: "GET", path: "/feeds/events/not-a-uuid"},
		{method: "GET", path: "/nowhere"}, {method: "PROPFIND", path: "/events/destinations"},
	}
	for name, values := range headers {
		for _, route := range routes {
			s.refusesKey(t, route, values...)
			if t.Failed() {
				t.Fatalf("%s key, %s %s", name, route.method, route.path)
			}
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
		for path, code := range map[string]string{"/events/types": "AUTHENTICATION_FAILED", "/feeds/events": "UNAUTHORIZED"} {
			in := request{path: path, peer: tt.peer}
			if tt.proto != "" {
				in.header = map[string]string{"X-Forwarded-Proto": tt.proto}
			}
			got := s.do(t, in)
			if got.status != tt.status {
				t.Errorf("%s: GET %s answered %d %s, want %d", name, path, got.status, got.body, tt.status)
			}
			if tt.status == http.StatusUnauthorized {
				got.refused(t, 401, code, map[string]string{
					"AUTHENTICATION_FAILED": "https",
					"UNAUTHORIZED":          "Invalid or missing API key",
				}[code])
			}
		}
	}
}

// Over a real connection: a caller that waits for "100 Continue" gets the refusal instead, and never sends its body.
func TestUnauthenticatedBodyIsNotAskedFor(t *testing.T) {
	s := serve(t)
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	r := must.Get(http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/feeds/events",
		unreadable{t}))(t)
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = 10
	transport := &http.Transport{ExpectContinueTimeout: apitest.Patience}
	t.Cleanup(transport.CloseIdleConnections)
	if status, body := apitest.Ask(t, &http.Client{Transport: transport}, r); status != http.StatusUnauthorized {
		t.Errorf("answered %d %s", status, body)
	}
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

// flip is another character than c.
func flip(c byte) string {
	if c == 'a' {
		return "b"
	}
	return "a"
}

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
	w := httptest.NewRecorder()
	s.contract.ServeHTTP(w, r)
	code, message := "AUTHENTICATION_FAILED", ""
	if !strings.HasPrefix(in.path, "/events") {
		code, message = "UNAUTHORIZED", "Invalid or missing API key"
	}
	response{status: w.Code, header: w.Header(), body: w.Body.String()}.refused(t, 401, code, message)
}
