package app_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/command"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
)

// process is a whole Carillon in this process, on a separate data directory and database.
type process struct {
	testing.TB
	app          *app.App
	cfg          config.Config
	organization uuid.UUID // of the test
	key          string    // of the organization

	alsoLog   []io.Writer
	unhurried bool
	look      time.Duration // see app.App

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
	dir, err := os.MkdirTemp(pgtest.FastDir(), "carillon")
	if err != nil {
		t.Fatal(err)
	}
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
	a, err := app.Open(ctx, p.cfg, log)
	if err != nil {
		cancel()
		p.Fatal(err)
	}
	a.Unhurried, a.Look = p.unhurried, p.look
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
		if err := <-ran; err != nil {
			p.Errorf("run: %v", err)
		}
		a.Close()
	}
	p.Cleanup(p.close)
	if p.key, err = a.DevelopmentKey(ctx); err != nil {
		p.Fatal(err)
	}
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
	if status != want {
		p.Fatalf("%s %s: %d, want %d: %v", method, path, status, want, data)
	}
	return data
}

// try sends a request and decodes the data, or the error, of its answer.
func (p *process) try(method, path string, body any) (status int, data map[string]any) {
	p.Helper()
	var sent io.Reader
	if body != nil {
		raw, err := json.Marshal(body)
		if err != nil {
			p.Fatal(err)
		}
		sent = bytes.NewReader(raw)
	}
	request, err := http.NewRequestWithContext(p.Context(), method, "http://"+p.app.APIAddr().String()+path, sent)
	if err != nil {
		p.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+p.key)
	if body != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	status, raw := p.send(request)
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

// send sends a request and returns the status and body of its answer.
func (p *process) send(request *http.Request) (status int, body []byte) {
	p.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		p.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if body, err = io.ReadAll(response.Body); err != nil {
		p.Fatal(err)
	}
	return response.StatusCode, body
}

// received is a webhook as it arrived.
type received struct {
	header http.Header
	body   []byte
}

// serve runs an endpoint on loopback, trusted through the development authority, and gives the address of its hook.
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
	authority, err := dev.EnsureAuthority(p.cfg.DataDir)
	if err != nil {
		p.Fatal(err)
	}
	certificate, err := authority.Certificate()
	if err != nil {
		p.Fatal(err)
	}
	server := httptest.NewUnstartedServer(handle)
	server.TLS = &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}
	server.StartTLS()
	p.Cleanup(server.Close)
	return server.URL
}

// receiver is an endpoint that takes webhooks from all sides at once.
func (p *process) receiver(answer func(n int) int) (url string, arrived <-chan received) {
	p.Helper()
	webhooks := make(chan received, 100)
	var n atomic.Int32
	url = p.serve(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost {
			return // the probe
		}
		body, err := io.ReadAll(r.Body)
		if err != nil {
			p.Errorf("receive: %v", err)
		}
		w.WriteHeader(answer(int(n.Add(1))))
		webhooks <- received{r.Header.Clone(), body}
	})
	return url, webhooks
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
	made, err := p.app.Commands.Publish(p.Context(), command.Caller{Actor: "operator", RequestID: uuid.New()},
		command.Publish{
			Type:         "news.item.added",
			Source:       "/news",
			Subject:      "storm",
			Organization: p.organization,
			Data:         []byte(`{"id":"7","title":"Storm"}`),
		})
	if err != nil {
		p.Fatal(err)
	}
	return made.ID
}

// settled polls a delivery until it has a status.
func (p *process) settled(id, status string) map[string]any {
	p.Helper()
	return p.delivery(id, "is "+status, func(d map[string]any) bool { return d["status"] == status })
}

func (p *process) subscribed(answer func(int) int) (secret string, arrived <-chan received) {
	p.Helper()
	url, arrived := p.receiver(answer)
	destination := p.call(http.MethodPost, "/events/destinations", map[string]any{
		"name":   "CRM",
		"config": map[string]any{"url": url},
	}, http.StatusCreated)
	if validation, ok := destination["validation"].(map[string]any); !ok || validation["reachable"] != true {
		p.Errorf("validation = %v, want reachable", destination["validation"])
	}
	first, ok := destination["secrets"].([]any)[0].(map[string]any)
	if !ok {
		p.Fatalf("secrets = %v", destination["secrets"])
	}
	p.call(http.MethodPost, fmt.Sprintf("/events/destinations/%s/subscriptions", destination["id"]),
		map[string]any{"eventTypes": []string{"news.*"}, "scopeKind": "all"}, http.StatusCreated)
	return fmt.Sprint(first["secret"]), arrived
}

func (p *process) restart() {
	p.Helper()
	p.close()
	p.open()
}
