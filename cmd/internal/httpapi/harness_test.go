package httpapi_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/httpapi/contract"
	"carillon/command/delivery"
	"carillon/eventstore"
)

// server is the API on real deps.
type server struct {
	*apitest.Fixture
	api      *httpapi.API
	contract http.Handler // the API, held to its document
	org      uuid.UUID
	key      string // of org
}

// proxies are believed what they say of their peers.
var proxies = []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")}

func serve(t *testing.T) *server {
	t.Helper()
	s := &server{Fixture: apitest.Start(t)}
	s.rewire(t, func(*httpapi.Dependencies) {})
	s.Process(t, func() eventstore.ProcessManager { return delivery.NewDispatcher(s.Store, nil) }) // writes wait for it
	s.org, s.key = s.Organization(t, "Town hall")
	return s
}

// rewire makes the API anew, with changed deps.
func (s *server) rewire(t *testing.T, change func(*httpapi.Dependencies)) {
	t.Helper()
	deps := httpapi.Dependencies{
		Commands: s.Commands, Queries: s.Queries, Await: s.Patient, Now: time.Now, Log: s.Log,
		Limiter: adapters.NewCheckLimiter(s.Pool, time.Now), Tester: delivery.Tester{Vault: s.Commands.Vault, Sender: s.Sender, Certificates: s.Certificates, Now: time.Now},
		Wake:    func() {},
		Metrics: prometheus.NewRegistry(), TrustedProxies: proxies,
	}
	change(&deps)
	if deps.Keys == nil {
		deps.Keys = deps.Queries
	}
	var err error
	if s.api, err = httpapi.New(deps); err != nil {
		t.Fatal(err)
	}
	s.contract = contract.Enforce(t, s.api)
}

// request is one request of a test. The zero value is GET with the server's own key.
type request struct {
	method, path string
	key          string // "": the server's own; "none": no Authorization header
	body         string // sent as application/json where header says nothing else
	header       map[string]string
	peer         string // "": this machine
}

type response struct {
	status int
	header http.Header
	body   string
}

// do sends a request through the contract.
func (s *server) do(t *testing.T, in request) response {
	t.Helper()
	if in.method == "" {
		in.method = http.MethodGet
	}
	var body io.Reader
	if in.body != "" {
		body = strings.NewReader(in.body)
	}
	r := httptest.NewRequestWithContext(t.Context(), in.method, in.path, body)
	r.RemoteAddr = "127.0.0.1:40000"
	if in.peer != "" {
		r.RemoteAddr = in.peer
	}
	switch in.key {
	case "none":
	case "":
		r.Header.Set("Authorization", "Bearer "+s.key)
	default:
		r.Header.Set("Authorization", "Bearer "+in.key)
	}
	if in.body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for name, value := range in.header {
		r.Header.Set(name, value)
	}
	w := httptest.NewRecorder()
	s.contract.ServeHTTP(w, r)
	return response{status: w.Code, header: w.Header(), body: w.Body.String()}
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

// gone is a pool on a Postgres that nobody serves.
func gone(t *testing.T) *pgxpool.Pool {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), "postgres://nobody@127.0.0.1:1/nothing")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// refused expects an error with a status, a code, and a message that contains a text.
func (r response) refused(t *testing.T, status int, code, message string) {
	t.Helper()
	p := r.problem(t)
	if r.status != status || p.Error.Code != code || !strings.Contains(p.Error.Message, message) {
		t.Errorf("answered %d %s\nwant     %d %s … %s", r.status, r.body, status, code, message)
	}
}

// blames expects the error of a bad request of the feed surface, whose details name a field.
func (r response) blames(t *testing.T, field, message string) {
	t.Helper()
	r.refused(t, 400, "BAD_REQUEST", message)
	if details := r.problem(t).Error.Details; details == nil || details.Field != field || details.Issue == "" {
		t.Errorf("details = %+v, want those of %s: %s", details, field, r.body)
	}
}

// into expects a success with a status, and reads its data.
func (r response) into(t *testing.T, status int, data any) {
	t.Helper()
	if r.status != status {
		t.Fatalf("answered %d %s, want %d", r.status, r.body, status)
	}
	envelope := struct {
		Success bool `json:"success"`
		Data    any  `json:"data"`
	}{Data: data}
	if err := json.Unmarshal([]byte(r.body), &envelope); err != nil {
		t.Fatalf("%s: %v", r.body, err)
	}
}
