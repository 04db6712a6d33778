// Package apitest has the real parts behind HTTP surfaces, for their tests: commands and queries on an embedded event
// store node and a real Postgres, with the read models running.
package apitest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/dispatch"
	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/app"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery/facts"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/projections"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
	"carillon/projections/publications"
	"carillon/query"
)

// Patience limits waiting, on a busy machine.
const Patience = 2 * time.Minute

// Operator acts as the admin API does.
var Operator = command.Caller{Actor: "operator", RequestID: uuid.MustParse("0f000000-0000-4000-8000-00000000000f")}

// loopback lets tests reach receivers on this machine.
var loopback = egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// Types is the catalog of event types, which takes a while to be compiled.
var Types = sync.OnceValues(catalog.New)

// Fixture are what the HTTP surfaces are made of. All end with the test, or with the binary
// where tests share them (package suite, and For).
type Fixture struct {
	Commands *command.Commands
	Queries  *query.Queries
	Progress *projections.Progress
	Pool     *pgxpool.Pool
	Keys     *Keys
	Log      *slog.Logger
	Logged   *Buffer // what Log wrote, at every level; shown if the test fails

	Store  *esdb.Store
	Relay  *adapters.Relay
	Sender *webhook.Sender // trusts the receivers of package httptest

	// Facts are read for each request: nothing is followed.
	Facts *facts.Follower

	Runner *projections.Runner

	halt      func()
	stopStore func()
}

// Prepared makes all tables, empty, as every fixture and every tested server begins with.
var Prepared = projecttest.Template(app.ReadModels()...)

// Start starts the parts.
func Start(tb testing.TB) *Fixture {
	tb.Helper()
	p := &Fixture{Pool: Prepared.Pool(tb), Keys: &Keys{}}
	p.logTo(tb)
	p.Store, p.stopStore = nodetest.Stoppable(tb, p.Log)
	secrets, err := sealing.NewVault(p.Keys, bytes.Repeat([]byte{7}, 32))
	if err != nil {
		tb.Fatal(err)
	}
	types, err := Types()
	if err != nil {
		tb.Fatal(err)
	}
	p.Queries = &query.Queries{Pool: p.Pool}
	p.Progress = projections.NewProgress(p.Pool)
	p.Relay = &adapters.Relay{Pool: p.Pool, Locks: pgtest.Locks(tb, p.Pool)}
	p.Relay.Look = 50 * time.Millisecond
	p.Sender = webhook.NewSender(egress.NewTransport(loopback, egress.Options{RootCAs: receivers()}), webhook.Options{
		Version: "test",
		Relay:   p.Relay.For,
	})
	p.Facts = &facts.Follower{
		Store: p.Store,
		Vault: secrets,
		Now:   time.Now,
		Log:   p.Log,
		Connect: func(shown *tls.Certificate) *http.Transport {
			return egress.NewTransport(loopback, egress.Options{RootCAs: receivers(), Certificate: shown})
		},
	}
	p.Runner = &projections.Runner{
		Pool:     p.Pool,
		Locks:    p.Relay.Locks,
		Store:    p.Store,
		Log:      p.Log,
		Progress: p.Progress,
	}
	p.Queries.AwaitPublished = func(ctx context.Context) error {
		return p.Runner.Wait(publications.ReadModel).For(ctx, Patience)
	}
	p.Commands = &command.Commands{
		Store:   p.Store,
		Now:     time.Now,
		Vault:   secrets,
		Guard:   egress.Guard{Policy: loopback},
		Prober:  facts.Prober{Facts: p.Facts, Sender: p.Sender},
		Catalog: types,
		Access:  p.Queries,
		Walks:   p.Queries,
		Quotas:  quotas(p, p.Log),
		History: patient{history{Queries: p.Queries, Runner: p.Runner}},
		Backlog: adapters.Backlog{Queries: p.Queries, Runner: p.Runner},
	}
	p.StartReadModels(tb)
	return p
}

func quotas(p *Fixture, log *slog.Logger) *adapters.Quotas {
	return &adapters.Quotas{
		Pool:  p.Pool,
		Locks: p.Relay.Locks,
		Log:   log,
	}
}

type history = adapters.History

// patient waits for publications for as long as a busy machine takes.
type patient struct{ history }

// History implements command.History.
func (h patient) History(
	ctx context.Context, organization uuid.UUID, since, until, retiredBefore time.Time,
	each func(uuid.UUID, dispatch.Summary) error,
) error {
	if err := h.Queries.AwaitPublished(ctx); err != nil {
		return err
	}
	return h.history.History(ctx, organization, since, until, retiredBefore, each)
}

// For returns the parts for one of the tests that share them: with commands and a log of the test's own, which shows
// what the test logs, and without the ways to take a part away.
func (p *Fixture) For(tb testing.TB) *Fixture {
	tb.Helper()
	own := *p
	own.halt, own.stopStore = nil, nil
	own.logTo(tb)
	own.Commands = &command.Commands{
		Store:   p.Store,
		Now:     p.Commands.Now,
		Vault:   p.Commands.Vault,
		Guard:   p.Commands.Guard,
		Prober:  p.Commands.Prober,
		Catalog: p.Commands.Catalog,
		Access:  p.Commands.Access,
		History: p.Commands.History,
		Backlog: p.Commands.Backlog,
		Walks:   p.Commands.Walks,
		Quotas:  quotas(p, own.Log),
	}
	return &own
}

// logTo makes a log that is shown if the test fails.
func (p *Fixture) logTo(tb testing.TB) {
	tb.Helper()
	p.Logged = &Buffer{}
	logged := p.Logged
	p.Log = slog.New(slog.NewTextHandler(logged, &slog.HandlerOptions{Level: slog.LevelDebug}))
	tb.Cleanup(func() {
		if tb.Failed() {
			tb.Logf("log:\n%s", logged)
		}
	})
}

// receivers is the authority of the certificate that all TLS servers of package httptest show.
func receivers() *x509.CertPool {
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

// StartReadModels runs the read models until StopReadModels or the end of the test.
func (p *Fixture) StartReadModels(tb testing.TB) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	var running sync.WaitGroup
	for _, model := range app.ReadModels() {
		running.Go(func() {
			if err := p.Runner.Project(ctx, model); err != nil {
				tb.Errorf("projection %s: %v", model.Name, err)
			}
		})
	}
	p.halt = func() {
		cancel()
		running.Wait()
	}
	tb.Cleanup(p.halt)
}

// StopReadModels lets them stand still if they are.
func (p *Fixture) StopReadModels() { p.halt() }

// Process runs a process manager until the test ends.
func (p *Fixture) Process(tb testing.TB, fresh func(*projections.Tables) eventstore.ProcessManager) {
	tb.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(tb.Context()))
	ended := make(chan error, 1)
	go func() { ended <- p.Runner.React(ctx, fresh) }()
	tb.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			tb.Errorf("process manager: %v", err)
		}
	})
}

// StopStore ends the event store permanently, as seen from here.
func (p *Fixture) StopStore() { p.stopStore() }

// Organization makes one, with an API key that works.
func (p *Fixture) Organization(tb testing.TB, name string) (id uuid.UUID, key string) {
	tb.Helper()
	made, err := p.Commands.RegisterOrganization(tb.Context(), Operator, command.RegisterOrganization{Name: name})
	if err != nil {
		tb.Fatal(err)
	}
	return made.ID, p.IssueKey(tb, made.ID, nil)
}

// IssueKey makes a key that works until it expires, with all scopes if none is named.
func (p *Fixture) IssueKey(
	tb testing.TB, of uuid.UUID, expires *time.Time, scopes ...organization.Scope,
) string {
	tb.Helper()
	issued, err := p.Commands.IssueKey(tb.Context(), Operator, command.IssueKey{
		Organization: of,
		ExpiresAt:    expires,
		Scopes:       scopes,
	})
	if err != nil {
		tb.Fatal(err)
	}
	p.Await(tb, issued.Position, organizations.ReadModel.Name)
	return issued.Value.Reveal()
}

// Await waits until read models show the event at a position, and process managers have recorded all that follows
// from it and from those before.
func (p *Fixture) Await(tb testing.TB, at eventstore.Position, consumers ...string) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	for _, name := range consumers {
		if !p.Progress.AwaitRecorded(ctx, at, name) {
			tb.Fatalf("%s did not get as far as %s", name, at)
		}
	}
}

// Newest waits until read models show all that is recorded by now.
func (p *Fixture) Newest(tb testing.TB, models ...projections.ReadModel) {
	tb.Helper()
	ctx, cancel := context.WithTimeout(tb.Context(), Patience)
	defer cancel()
	if err := p.Runner.Newest(ctx, models...); err != nil {
		tb.Fatal(err)
	}
}

// Patient awaits read models longer than a server does before it answers that a write is safe but not readable yet, so
// that the next request reads the write even on a busy machine.
func (p *Fixture) Patient(ctx context.Context, to eventstore.Position, consumers ...string) bool {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), Patience)
	defer cancel()
	return p.Progress.Await(ctx, to, slices.DeleteFunc(slices.Clone(consumers), func(name string) bool {
		return name == facts.Name // no deliverer is there
	})...)
}

// EventTypes are the types of the events in a stream.
func (p *Fixture) EventTypes(tb testing.TB, stream string) []string {
	tb.Helper()
	var types []string
	for recorded, err := range p.Store.Read(tb.Context(), stream, 0) {
		if err != nil {
			tb.Fatal(err)
		}
		types = append(types, recorded.Type)
	}
	return types
}

// Ask sends a request, and returns the whole answer.
func Ask(tb testing.TB, client *http.Client, r *http.Request) (status int, body string) {
	tb.Helper()
	answer, err := client.Do(r)
	if err != nil {
		tb.Fatal(err)
	}
	text, err := io.ReadAll(answer.Body)
	if err = errors.Join(err, answer.Body.Close()); err != nil {
		tb.Fatal(err)
	}
	return answer.StatusCode, string(text)
}

// Buffer is a log that tests read while it is written.
type Buffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

// Write implements io.Writer.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

// String returns the text written so far.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
