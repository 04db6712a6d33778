package httpapi_test

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/projections/organizations"
)

// untouchable is a body that must not be read.
type untouchable struct{ t *testing.T }

func (u untouchable) Read([]byte) (int, error) {
	u.t.Error("the body was read")
	return 0, errors.New("untouchable")
}

func (untouchable) Close() error { return nil }

func TestKeyIsCheckedBeforeAnythingElse(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clock(t)
	expires := c.now().Add(time.Hour)
	expired := s.IssueKey(t, s.org, &expires)
	revoked := s.IssueKey(t, s.org, nil)
	id := strings.Split(revoked, "_")[1]
	changed, err := s.Commands.RevokeKey(t.Context(), apitest.Operator, command.RevokeKey{Organization: s.org, KeyID: id})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
	c.pass(time.Hour - time.Millisecond)
	if got := s.do(t, request{path: "/feeds/events", key: expired}); got.status != http.StatusOK {
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
	routes := []struct{ method, path string }{
		{"POST", "/events/destinations"}, {"GET", "/events/nowhere"}, {"DELETE", "/events/destinations"}, {"GET", "/events"},
		{"POST", "/feeds/events"}, {"GET", "/feeds/events/not-a-uuid"}, {"GET", "/nowhere"}, {"PUT", "/feeds/events"},
		{"PROPFIND", "/events/destinations"},
	}
	for name, values := range headers {
		for _, route := range routes {
			r := httptest.NewRequestWithContext(t.Context(), route.method, route.path, untouchable{t})
			r.RemoteAddr, r.ContentLength = "127.0.0.1:40000", 1<<30
			r.Header.Set("Content-Type", "text/plain")
			r.Header["Authorization"] = values
			w := httptest.NewRecorder()
			s.contract.ServeHTTP(w, r)
			got := response{w.Code, w.Header(), w.Body.String()}
			if strings.HasPrefix(route.path, "/events") {
				got.refused(t, 401, "AUTHENTICATION_FAILED", "")
			} else {
				got.refused(t, 401, "UNAUTHORIZED", "Invalid or missing API key")
			}
			if t.Failed() {
				t.Fatalf("%s key, %s %s", name, route.method, route.path)
			}
		}
	}
}

func TestKeyStopsWorkingOnceRevoked(t *testing.T) {
	t.Parallel()
	s := serve(t)
	c := s.clock(t)
	key := s.IssueKey(t, s.org, nil)
	if got := s.do(t, request{path: "/feeds/events", key: key}); got.status != http.StatusOK {
		t.Fatalf("answered %d %s", got.status, got.body)
	}
	changed, err := s.Commands.RevokeKey(t.Context(), apitest.Operator, command.RevokeKey{
		Organization: s.org,
		KeyID:        strings.Split(key, "_")[1],
	})
	if err != nil {
		t.Fatal(err)
	}
	s.Await(t, changed.Position, organizations.ReadModel.Name)
	c.pass(time.Second / 2) // the rest of the second that it may take is the read model's
	if got := s.do(t, request{path: "/feeds/events", key: key}); got.status != http.StatusUnauthorized {
		t.Errorf("the revoked key is answered %d", got.status)
	}
}

func TestPlainHTTPIsRefused(t *testing.T) {
	t.Parallel()
	s := serve(t)
	tests := map[string]struct {
		peer, proto string
		status      int
	}{
		"this machine":                             {"127.0.0.1:1", "", 200},
		"this machine, IPv6":                       {"[::1]:1", "", 200},
		"another peer":                             {"192.0.2.1:1", "", 401},
		"another peer that lies":                   {"192.0.2.1:1", "https", 401},
		"trusted proxy, https":                     {"203.0.113.9:1", "https", 200},
		"trusted proxy, http":                      {"203.0.113.9:1", "http", 401},
		"trusted proxy that says nothing":          {"203.0.113.9:1", "", 401},
		"trusted proxy, as an IPv4-mapped address": {"[::ffff:203.0.113.9]:1", "https", 200},
		"no address":                               {"@", "", 401},
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
	t.Parallel()
	s := serve(t)
	server := httptest.NewServer(s.api)
	t.Cleanup(server.Close)
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, server.URL+"/feeds/events", untouchable{t})
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Expect", "100-continue")
	r.ContentLength = 10
	transport := &http.Transport{ExpectContinueTimeout: apitest.Patience}
	t.Cleanup(transport.CloseIdleConnections)
	answer, err := transport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	body, _ := io.ReadAll(answer.Body)
	_ = answer.Body.Close()
	if answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("answered %d %s", answer.StatusCode, body)
	}
}

// clock moves only when a test says so.
type clock struct{ nanoseconds atomic.Int64 }

// clock makes the API again, on a clock that stands still at the present time.
func (s *server) clock(t *testing.T) *clock {
	t.Helper()
	c := new(clock)
	c.nanoseconds.Store(time.Now().UnixNano())
	s.rewire(t, func(p *httpapi.Dependencies) {
		p.Now = c.now
		p.Limiter = adapters.NewCheckLimiter(s.Pool, c.now)
	})
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
