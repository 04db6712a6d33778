package adminapi_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/openapi/contract"
	"carillon/cmd/internal/suite"
	"carillon/cmd/internal/wire"
	"carillon/command/treeheads"
	"carillon/eventstore/storetest/must"
	"carillon/projections/analytics"
	"carillon/query"
)

const token = "0123456789abcdef0123456789abcdef"

// server is the admin API on real parts. Projections and readiness are this process's business elsewhere; here the test
// says what they answer.
type server struct {
	*apitest.Fixture
	api         *adminapi.API
	contract    http.Handler
	projections *projections
	down        map[string]error
	uses        adapters.CredentialUses
	later       atomic.Int64 // nanoseconds, by which the API's clock is ahead
	stopped     time.Time    // time of the API's clock, if it stands still
}

type projections struct{ rebuilding string }

func (p *projections) Status(context.Context) ([]adminapi.Projection, error) {
	return []adminapi.Projection{{
		Name:     "feeds",
		Kind:     "readModel",
		Position: "7/7",
		Head:     "9/9",
		Events:   3,
	}}, nil
}

func (p *projections) Rebuild(_ context.Context, name string) error {
	switch {
	case name != "feeds":
		return adminapi.ErrNoProjection
	case p.rebuilding == name:
		return adminapi.ErrRebuilding
	}
	p.rebuilding = name
	return nil
}

func (p *projections) Verify(ctx context.Context, name string, sample float64) error {
	if sample != 100 && sample != 2.5 {
		return fmt.Errorf("sample %g", sample)
	}
	return p.Rebuild(ctx, name)
}

// idle has no keys to change.
type idle struct{}

func (idle) RotateMaster(context.Context) error { return nil }
func (idle) RenewKeys(context.Context) error    { return nil }

// parts are what the tests of the package share: each has a separate API on them.
var parts = suite.Fixture(apitest.Start)

func TestMain(m *testing.M) { os.Exit(suite.Main(m)) }

// serve makes an API of the test's own, which runs in parallel.
func serve(t *testing.T) *server {
	t.Helper()
	t.Parallel()
	return serveOn(t, parts(t))
}

// serveAlone is serve for a test that takes a part away, or looks at the whole of a list.
func serveAlone(t *testing.T) *server {
	t.Helper()
	t.Parallel()
	return serveOn(t, apitest.Start(t))
}

func serveOn(t *testing.T, on *apitest.Fixture) *server {
	t.Helper()
	s := &server{Fixture: on, projections: &projections{}, down: map[string]error{"postgres": nil, "eventstore": nil}}
	s.uses.Pool = s.Pool
	metrics := prometheus.NewRegistry()
	metrics.MustRegister(prometheus.NewGauge(prometheus.GaugeOpts{Name: "carillon_test", Help: "A metric."}))
	public := must.Get(httpapi.New(httpapi.Dependencies{
		Commands: s.Commands,
		Queries:  s.Queries,
		Keys:     s.Queries,
		Readers:  wire.Readers{Await: s.Patient},
		Now:      s.now,
		Log:      s.Log,
		Metrics:  prometheus.NewRegistry(),
	}))(t)
	s.api = adminapi.New(adminapi.Dependencies{
		OnBehalf: public.OnBehalf,
		ConsoleLink: func(ctx context.Context, of adminapi.ConsoleVisitor) (string, time.Time, error) {
			return console.NewLink(ctx, adapters.ConsoleSessions{Pool: s.Pool}, of, time.Now())
		},
		Commands:    s.Commands,
		Queries:     s.Queries,
		Readers:     wire.Readers{Await: s.Patient},
		Projections: s.projections,
		Ready:       func(context.Context) map[string]error { return s.down },
		Metrics:     metrics,
		Token:       token,
		Log:         s.Log,
		Uses:        &s.uses,
		Keys:        idle{},
		Seal: &treeheads.Sealer{
			Store: s.Store,
			Key:   ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)),
			Now:   s.now,
		},
		Now:      s.now,
		Analysts: analytics.Logins{Pool: s.Pool, Log: s.Log},
	})
	s.contract = documented.Enforce(t, s.api)
	return s
}

var documented = contract.New(adminapi.OpenAPI, func(string) string { return "Error" })

func (s *server) now() time.Time {
	at := s.stopped
	if at.IsZero() {
		at = time.Now()
	}
	return at.Add(time.Duration(s.later.Load()))
}

// organization makes one, and returns the path to it.
func (s *server) organization(t *testing.T) (id uuid.UUID, path string) {
	t.Helper()
	made := into[adminapi.Created](t, 201, s.do(t, "POST", "/admin/organizations", `{"name":"Town hall"}`))
	return made.ID, "/admin/organizations/" + made.ID.String()
}

// source registers a source, and returns the path to it.
func (s *server) source(t *testing.T, body string) (id uuid.UUID, path string) {
	t.Helper()
	made := into[adminapi.Created](t, 201, s.do(t, "POST", "/admin/sources", body))
	return made.ID, "/admin/sources/" + made.ID.String()
}

// sources lists sources.
func (s *server) sources(t *testing.T, filter string) []query.Source {
	t.Helper()
	return into[adminapi.List[query.Source]](t, 200, s.do(t, "GET", "/admin/sources"+filter, "")).Items
}

// issue issues a token of an operator or an auditor.
func (s *server) issue(t *testing.T, path, body string) adminapi.IssuedToken {
	t.Helper()
	return into[adminapi.IssuedToken](t, 201, s.do(t, "POST", "/admin/"+path, body))
}

// do sends a request with the admin token.
func (s *server) do(t *testing.T, method, path, body string) response {
	t.Helper()
	return s.as(t, token, method, path, body)
}

// as sends a request with a token, and with headers as names and values in turn; a body is sent as JSON, or as NDJSON
// if it has several lines.
func (s *server) as(t *testing.T, bearer, method, path, body string, header ...string) response {
	t.Helper()
	r := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(body))
	r.Header.Set("Authorization", "Bearer "+bearer)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	if strings.Contains(body, "\n") {
		r.Header.Set("Content-Type", "application/x-ndjson")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return s.send(r)
}

func (s *server) send(r *http.Request) response {
	r.RemoteAddr = "127.0.0.1:40000"
	w := httptest.NewRecorder()
	s.contract.ServeHTTP(w, r)
	return response{w.Code, w.Header(), w.Body.String()}
}

type response struct {
	status int
	header http.Header
	body   string
}

func (r response) refused(t *testing.T, status int, code, message string) {
	t.Helper()
	var envelope struct {
		Success bool `json:"success"`
		Error   struct {
			Code    string `json:"code"`
			Message string `json:"message"`
		} `json:"error"`
	}
	err := json.Unmarshal([]byte(r.body), &envelope, json.RejectUnknownMembers(true))
	if err != nil || r.status != status || envelope.Error.Code != code ||
		!strings.Contains(envelope.Error.Message, message) {
		t.Errorf("answered %d %s (%v)\nwant     %d %s … %s", r.status, r.body, err, status, code, message)
	}
}

// into returns the data of an answer, which is a success with a status.
func into[T any](t *testing.T, status int, r response) (data T) {
	t.Helper()
	r.into(t, status, &data)
	return data
}

func (r response) into(t *testing.T, status int, data any) {
	t.Helper()
	envelope := struct {
		Success bool `json:"success"`
		Data    any  `json:"data"`
	}{Data: data}
	if err := json.Unmarshal([]byte(r.body), &envelope); err != nil || r.status != status || !envelope.Success {
		t.Fatalf("answered %d %s (%v), want %d", r.status, r.body, err, status)
	}
}

var errDown = errors.New("connection refused by hunter2")
