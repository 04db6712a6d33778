package httpapi_test

import (
	"cmp"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/openapi/contract"
	"carillon/cmd/internal/suite"
	"carillon/cmd/internal/wire"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
)

// server is a separate API for each test, on parts that all tests share.
type server struct {
	*apitest.Fixture
	api      *httpapi.API
	contract http.Handler // the API, held to its document
	org      uuid.UUID    // the test's own
	key      string       // of org
	town     int          // where what it observes takes place: see concert
}

// proxies are believed what they say of their peers.
var proxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}

// shared starts the parts: one node, one database, the read models, the dispatcher and the curation of feeds.
var shared = suite.Fixture(func(tb testing.TB) *apitest.Fixture {
	parts := apitest.Start(tb)
	parts.Process(tb, func(*projections.Tables) eventstore.ProcessManager { return dispatching.New(parts.Store, nil) })
	parts.Process(tb, func(tables *projections.Tables) eventstore.ProcessManager {
		return adapters.NewFeedCuration(tables, parts.Store, parts.Commands, 0, parts.Log)
	})
	return parts
})

var towns atomic.Int64

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// serve makes an API and an organization of the test's own, which runs in parallel.
func serve(t *testing.T) *server {
	t.Helper()
	t.Parallel()
	return serveOn(t, shared(t).For(t))
}

// serveAlone is serve on parts of the test's own, for tests that take one away. The curation of feeds does not run.
func serveAlone(t *testing.T) *server {
	t.Helper()
	t.Parallel()
	parts := apitest.Start(t)
	parts.Process(t, func(*projections.Tables) eventstore.ProcessManager { return dispatching.New(parts.Store, nil) })
	return serveOn(t, parts)
}

func serveOn(t *testing.T, parts *apitest.Fixture) *server {
	t.Helper()
	s := &server{Fixture: parts, town: int(towns.Add(1))}
	s.rewire(t, func(*httpapi.Dependencies) {})
	s.org, s.key = s.Organization(t, "Town hall")
	return s
}

// rewire makes the API again, with changed deps.
func (s *server) rewire(t *testing.T, change func(*httpapi.Dependencies)) {
	t.Helper()
	deps := httpapi.Dependencies{
		Commands:       s.Commands,
		Queries:        s.Queries,
		Readers:        wire.Readers{Await: s.Patient},
		Now:            time.Now,
		Log:            s.Log,
		Limiter:        adapters.NewCheckLimiter(s.Pool),
		Tester:         sending.Tester{Facts: s.Facts, Sender: s.Sender, Now: time.Now},
		Relay:          s.Relay,
		Metrics:        prometheus.NewRegistry(),
		TrustedProxies: proxies,
	}
	change(&deps)
	if deps.Keys == nil {
		deps.Keys = deps.Queries
	}
	s.api = must.Get(httpapi.New(deps))(t)
	s.contract = documented.Enforce(t, s.api)
}

var documented = contract.New(httpapi.OpenAPI, func(path string) string {
	if path == "/events" || strings.HasPrefix(path, "/events/") {
		return "EventsError"
	}
	return "FeedsError"
})

// request is one request of a test. The zero value is GET with the server's own key.
type request struct {
	method, path string
	key          string // "": the server's own; "none": no Authorization header
	body         string // sent as application/json where header says nothing else
	header       map[string]string
	peer         string          // "": this machine
	ctx          context.Context // Optional.
}

type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request through the contract.
func (s *server) do(t *testing.T, in request) response {
	t.Helper()
	return s.send(t, s.contract, in)
}

func (s *server) get(t *testing.T, path string) response {
	t.Helper()
	return s.sends(t, http.MethodGet, path, "")
}

func (s *server) delete(t *testing.T, path string) response {
	return s.sends(t, http.MethodDelete, path, "")
}

func (s *server) post(t *testing.T, path, body string) response {
	return s.sends(t, http.MethodPost, path, body)
}

func (s *server) put(t *testing.T, path, body string) response {
	return s.sends(t, http.MethodPut, path, body)
}

func (s *server) patch(t *testing.T, path, body string) response {
	return s.sends(t, http.MethodPatch, path, body)
}

func (s *server) sends(t *testing.T, method, path, body string) response {
	t.Helper()
	return s.do(t, request{method: method, path: path, body: body})
}

// as returns the server for the holder of another key.
func (s *server) as(key string) *server {
	other := *s
	other.key = cmp.Or(key, s.key)
	return &other
}

func (s *server) send(t *testing.T, to http.Handler, in request) response {
	t.Helper()
	return serveTo(to, s.request(t, in, http.NoBody))
}

func serveTo(to http.Handler, r *http.Request) response {
	w := httptest.NewRecorder()
	to.ServeHTTP(w, r)
	return response{status: w.Code, header: w.Header(), body: w.Body.String()}
}

// request makes an HTTP request. Its body is the text of in, or body if that is empty.
func (s *server) request(t *testing.T, in request, body io.Reader) *http.Request {
	t.Helper()
	if in.body != "" {
		body = strings.NewReader(in.body)
	}
	ctx := in.ctx
	if ctx == nil {
		ctx = t.Context()
	}
	r := httptest.NewRequestWithContext(ctx, cmp.Or(in.method, http.MethodGet), in.path, body)
	r.RemoteAddr = cmp.Or(in.peer, "127.0.0.1:40000")
	if key := cmp.Or(in.key, s.key); key != "none" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if in.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range in.header {
		r.Header.Set(name, value)
	}
	return r
}

// logged returns the log of the test, and of the parts that all tests share.
func (s *server) logged(t *testing.T) string {
	t.Helper()
	return s.Logged.String() + shared(t).Logged.String()
}

// wrote expects the types of the events of a stream.
func (s *server) wrote(t *testing.T, stream string, want ...string) {
	t.Helper()
	assert.Slices(t, s.EventTypes(t, stream), want, "%s", stream)
}

// page is a list as it is answered.
type page[T any] struct {
	Items      []T `json:"items"`
	Total      int `json:"total"`
	Pagination struct {
		HasMore bool    `json:"hasMore"`
		Until   *string `json:"until"`
	} `json:"pagination"`
}

type idView struct {
	ID string `json:"id"`
}

// problem is an error envelope.
type problem struct {
	Success bool
	Error   struct {
		Code, Message string
		Details       *struct{ Field, Issue string }
	}
}

func (r response) problem(t *testing.T) problem {
	t.Helper()
	var p problem
	if err := json.Unmarshal([]byte(r.body), &p, json.MatchCaseInsensitiveNames(true)); err != nil {
		t.Fatalf("%d %s: %v", r.status, r.body, err)
	}
	return p
}

// gone is a pool on an address without a Postgres.
func gone(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool := must.Get(pgxpool.New(t.Context(), "postgres://unknown@127.0.0.1:1/nothing"))(t)
	t.Cleanup(pool.Close)
	return pool
}

// refused expects an error with a status, a code, and a message that contains a text.
func (r response) refused(t *testing.T, status int, code, message string) {
	t.Helper()
	p := r.problem(t)
	assert.True(t, r.status == status && p.Error.Code == code && strings.Contains(p.Error.Message, message),
		"answered %d %s\nwant     %d %s … %s", r.status, r.body, status, code, message)
}

// refusedAs expects the error of a code, with the status that the code has.
func (r response) refusedAs(t *testing.T, want [2]string) {
	t.Helper()
	status := map[string]int{"NOT_FOUND": 404, "ALREADY_EXISTS": 409, "CONFLICT": 409}[want[0]]
	r.refused(t, cmp.Or(status, http.StatusBadRequest), want[0], want[1])
}

// comesAgainWithin expects a Retry-After of at least a second.
func (r response) comesAgainWithin(t *testing.T, most time.Duration) {
	t.Helper()
	wait, err := strconv.Atoi(r.header.Get("Retry-After"))
	assert.True(t, err == nil && wait >= 1 && wait <= int(most.Seconds()), "Retry-After: %d, %v", wait, err)
}

// done expects a success without data.
func (r response) done(t *testing.T) {
	t.Helper()
	assert.True(t, r.status == http.StatusOK && r.body == `{"success":true}`, "answered %d %s", r.status, r.body)
}

// blames expects the error of a bad request of the feed surface, whose details name a field.
func (r response) blames(t *testing.T, field, message string) {
	t.Helper()
	r.refused(t, 400, "BAD_REQUEST", message)
	if details := r.problem(t).Error.Details; details == nil || details.Field != field || details.Issue == "" {
		t.Errorf("details = %+v, want those of %s: %s", details, field, r.body)
	}
}

// into returns the data of an answer, which is a success with a status.
func into[T any](t *testing.T, status int, r response) (data T) {
	t.Helper()
	r.into(t, status, &data)
	return data
}

// into expects a success with a status, and reads its data.
func (r response) into(t *testing.T, status int, data any) {
	t.Helper()
	must.Equal(t, r.status, status, "answered … %s", r.body)
	envelope := struct {
		Success bool `json:"success"`
		Data    any  `json:"data"`
	}{Data: data}
	if err := json.Unmarshal([]byte(r.body), &envelope); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}
