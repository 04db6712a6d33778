package app_test

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/cmd/internal/suite/children"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
)

func TestMain(m *testing.M) {
	children.Main()
	os.Exit(suite.Main(m))
}

// process is a whole Carillon in this process, on a separate data directory and database.
type process struct {
	testing.TB
	app          *app.App
	cfg          config.Config
	organization uuid.UUID // of the test
	key          string    // of the organization

	alsoLog     []io.Writer
	noHostDelay bool
	look        time.Duration // see config.Config

	close func()
}

// whole is the server of all tests that take no part of it away, move no clock and look at no list of everything.
var whole = suite.Fixture(func(tb testing.TB) *process {
	return newProcess(tb, func(cfg *config.Config) {
		cfg.AdminHosts, cfg.CollectContact = []string{"admin.internal"}, "events@example.org"
	})
})

// shared returns the server of the package, with an organization for this test.
func shared(t *testing.T) *process {
	t.Helper()
	t.Parallel()
	p := *whole(t)
	p.TB = t
	return p.another(t.Name())
}

// another is the same process for another organization, which it makes.
func (p *process) another(name string) *process {
	p.Helper()
	q := *p
	made, err := q.app.Commands.RegisterOrganization(q.Context(), operator(), command.RegisterOrganization{Name: name})
	if err != nil {
		q.Fatal(err)
	}
	q.organization = made.ID
	q.app.Progress.Await(q.Context(), made.Position, organizations.ReadModel.Name)
	issued, err := q.app.Commands.IssueKey(q.Context(), operator(), command.IssueKey{Organization: q.organization})
	if err != nil {
		q.Fatal(err)
	}
	q.app.Progress.Await(q.Context(), issued.Position, organizations.ReadModel.Name)
	q.key = issued.Value.Reveal()
	return &q
}

// start runs a process of this test alone, beside other tests.
func start(t *testing.T, change func(*config.Config)) *process {
	t.Helper()
	t.Parallel()
	return newProcess(t, change)
}

func newProcess(t testing.TB, change func(*config.Config), alsoLog ...io.Writer) *process {
	t.Helper()
	p := prepare(t, change, alsoLog...)
	p.open()
	return p
}

// shortDir returns a directory that ends with the test, and whose path is short enough for a socket.
func shortDir(t testing.TB) string {
	t.Helper()
	dir := must.Get(os.MkdirTemp(pgtest.FastDir(), "carillon"))(t)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// prepare makes the place of a process that is not opened yet.
func prepare(t testing.TB, change func(*config.Config), alsoLog ...io.Writer) *process {
	t.Helper()
	dir := shortDir(t)
	cfg := config.Config{
		HTTPAddr:  "127.0.0.1:0",
		AdminAddr: "127.0.0.1:0",
		DataDir:   dir,
		Dev:       true,
		Roles: []string{config.RoleAPI, config.RoleProject, config.RoleDispatch, config.RoleDeliver,
			config.RoleCollect},
		DatabaseURL:           config.Address(apitest.Prepared.URL(t)),
		DeliveryTimeout:       30 * time.Second,
		DeliveryRetrySchedule: []time.Duration{10 * time.Millisecond, 10 * time.Millisecond},
		AutoDisableAfter:      100,
		AutoDisableMinStreak:  time.Hour,
	}
	if change != nil {
		change(&cfg)
	}
	return &process{
		TB:           t,
		cfg:          cfg,
		organization: organization,
		alsoLog:      alsoLog,
	}
}

// open starts the process; it ends with the test, or with close.
func (p *process) open() {
	p.Helper()
	log := slog.New(slog.NewTextHandler(io.MultiWriter(append(p.alsoLog, p.Output())...), nil))
	ctx, cancel := context.WithCancel(context.Background())
	p.cfg.NoHostDelay, p.cfg.SearchEvery = p.noHostDelay, p.look
	a, err := app.Open(ctx, p.cfg, log)
	if err != nil {
		cancel()
		p.Fatal(err)
	}
	ran := make(chan error, 1)
	go func() { ran <- a.Run(ctx) }()
	p.app = a
	done := false
	p.close = func() {
		if done {
			return
		}
		done = true
		cancel()
		assert.Is(p, <-ran, nil, "run")
		a.Close()
	}
	p.Cleanup(p.close)
	p.key = must.Get(a.DevelopmentKey(ctx))(p)
}

// call sends a request and decodes the data of its answer. The server waits two seconds for its read models, which a
// busy machine may exceed: then what was just made is missing, and is asked for again.
func (p *process) call(method, path string, body any, want int) map[string]any {
	p.Helper()
	status, data := p.try(method, path, body)
	for deadline := time.Now().Add(patience); status == http.StatusNotFound && want < http.StatusBadRequest &&
		time.Now().Before(deadline); {
		<-time.After(20 * time.Millisecond)
		status, data = p.try(method, path, body)
	}
	must.True(p, status == want, "%s %s: %d, want %d: %v", method, path, status, want, data)
	return data
}

// try sends a request and decodes the data, or the error, of its answer.
func (p *process) try(method, path string, body any) (status int, data map[string]any) {
	p.Helper()
	status, raw := p.request(method, "http://"+p.app.APIAddr().String()+path, p.key, body)
	var envelope struct {
		Success bool           `json:"success"`
		Data    map[string]any `json:"data"`
		Error   map[string]any `json:"error"`
	}
	if err := json.Unmarshal(raw, &envelope); err != nil {
		p.Fatalf("%s %s: %v: %s", method, path, err, raw)
	}
	if envelope.Success {
		return status, envelope.Data
	}
	return status, envelope.Error
}

// request sends a request with a token, and returns the status and body of its answer.
func (p *process) request(method, url, token string, body any) (status int, answer []byte) {
	p.Helper()
	var sent []byte
	if body != nil {
		sent = must.Get(json.Marshal(body))(p)
	}
	request := must.Get(http.NewRequestWithContext(p.Context(), method, url, bytes.NewReader(sent)))(p)
	request.Header.Set("Authorization", "Bearer "+token)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	return p.send(request)
}

// send sends a request and returns the status and body of its answer.
func (p *process) send(request *http.Request) (status int, body []byte) {
	p.Helper()
	status, text := apitest.Ask(p, http.DefaultClient, request)
	return status, []byte(text)
}

// raw is an answer's body as it came.
func (p *process) raw(path string) []byte {
	p.Helper()
	_, body := p.request(http.MethodGet, "http://"+p.app.APIAddr().String()+path, p.key, nil)
	return body
}

// adminToken is the one of the operator.
func (p *process) adminToken() string {
	p.Helper()
	token := must.Get((&config.Client{DataDir: p.cfg.DataDir}).Token())(p)
	return token
}

// admin asks the admin listener.
func (p *process) admin(method, path string) (status int, body string) {
	p.Helper()
	status, raw := p.request(method, "http://"+p.app.AdminAddr().String()+path, p.adminToken(), nil)
	return status, string(raw)
}

func (p *process) metrics() string {
	p.Helper()
	_, body := p.request(http.MethodGet, "http://"+p.app.AdminAddr().String()+"/metrics", "", nil)
	return string(body)
}

// received is a webhook as it arrived.
type received struct {
	header http.Header
	body   []byte
}

// serve runs an endpoint on loopback, trusted through the development authority, and returns the address of its hook.
func (p *process) serve(handle http.HandlerFunc) (hook string) {
	p.Helper()
	return p.serveAll(handle) + "/hook"
}

// untilClosed holds a handler until a channel is closed, or the test ends: its server waits for it.
func (p *process) untilClosed(c <-chan struct{}) {
	select {
	case <-c:
	case <-p.Context().Done():
	}
}

// serveAll is serve for an endpoint with several hooks, and returns what their addresses begin with.
func (p *process) serveAll(handle http.HandlerFunc) (address string) {
	p.Helper()
	return serveTLS(p.TB, p.cfg.DataDir, handle)
}

func (p *process) await(arrived <-chan received) received {
	p.Helper()
	select {
	case r := <-arrived:
		return r
	case <-time.After(patience):
		p.Fatal("no webhook arrived")
		return received{}
	}
}

func (p *process) publish() uuid.UUID {
	p.Helper()
	return p.announce("storm")
}

// settled polls a delivery until it has a status.
func (p *process) settled(id, status string) map[string]any {
	p.Helper()
	return p.delivery(id, "is "+status, func(d map[string]any) bool { return d["status"] == status })
}

func (p *process) restart() {
	p.Helper()
	p.close()
	p.open()
}
