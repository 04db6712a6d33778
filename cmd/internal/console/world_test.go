package console_test

import (
	"cmp"
	"context"
	"fmt"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/sending"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	runner "carillon/projections"
	"carillon/projections/audit"
	"carillon/projections/destinations"
)

// world has both consoles on real parts.
type world struct {
	*apitest.Fixture
	sessions console.Sessions
	handler  http.Handler // of the API's listener
	admin    http.Handler // of the operators' listener
	console  *console.Console
	inside   *console.Console // the operators'
	org      uuid.UUID
	key      string
	later    *atomic.Int64 // nanoseconds by which the consoles' clock is ahead
	stopped  time.Time     // the consoles' clock, if it stands still

	projections *projections
	collectable []netip.Prefix // addresses that trials of sources may reach
}

// adminToken opens the operators' console.
const adminToken = "0123456789abcdef0123456789abcdef"

// parts are shared by all tests of the package: each has its own organization and consoles.
var parts = suite.Fixture(start)

func start(tb testing.TB) *apitest.Fixture {
	tb.Helper()
	p := apitest.Start(tb)
	p.Process(tb, func(*runner.Tables) eventstore.ProcessManager { // changes wait for it
		return dispatching.New(p.Store, nil)
	})
	p.Process(tb, func(tables *runner.Tables) eventstore.ProcessManager {
		return adapters.NewFeedCuration(tables, p.Store, p.Commands, 0, p.Log)
	})
	return p
}

// open returns an organization with its own consoles. The test runs in parallel.
func open(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	shared := parts(t)
	logged := len(shared.Logged.String())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", shared.Logged.String()[logged:])
		}
	})
	return openOn(t, shared)
}

// openAlone is open for a test that removes a part, or lists all organizations.
func openAlone(tb testing.TB) *world {
	tb.Helper()
	if t, is := tb.(*testing.T); is {
		t.Parallel()
	}
	return openOn(tb, start(tb))
}

func openOn(tb testing.TB, on *apitest.Fixture) *world {
	tb.Helper()
	w := &world{Fixture: on, later: &atomic.Int64{}, projections: &projections{}}
	w.org, w.key = w.Organization(tb, "Town hall")
	w.sessions = adapters.ConsoleSessions{Pool: w.Pool}
	w.handler, w.admin = w.organizationsConsole(tb), w.operatorsConsole(tb, adminToken)
	return w
}

func (w *world) now() time.Time {
	at := w.stopped
	if at.IsZero() {
		at = time.Now()
	}
	return at.Add(time.Duration(w.later.Load()))
}

func (w *world) dependencies(tb testing.TB) (console.Dependencies, *httpapi.API) {
	tb.Helper()
	tester := sending.Tester{Facts: w.Facts, Sender: w.Sender, Now: w.now}
	limiter := adapters.NewCheckLimiter(w.Pool)
	api := must.Get(httpapi.New(httpapi.Dependencies{
		Commands: w.Commands,
		Queries:  w.Queries,
		Keys:     w.Queries,
		Readers:  wire.Readers{Await: w.Patient},
		Limiter:  limiter,
		Tester:   tester,
		Now:      w.now,
		Log:      w.Log,
		Metrics:  prometheus.NewRegistry(),
	}))(tb)
	collectors := must.Get(app.Collectors(app.Collecting{Allow: w.collectable, NoHostDelay: true, Now: w.now}))(tb)
	return console.Dependencies{
		Commands:       w.Commands,
		Queries:        w.Queries,
		Sessions:       w.sessions,
		Works:          adapters.ConsoleWorks{Pool: w.Pool},
		Verify:         api.Verify,
		Admit:          api.Admit,
		Readers:        wire.Readers{Await: w.Patient},
		Limiter:        limiter,
		Policy:         autodisable.Policy{After: 100, MinStreak: time.Hour},
		LoginLimiter:   console.NewLoginLimiter(),
		Tester:         tester,
		Collectors:     collectors,
		Version:        "v1.2.3",
		Now:            w.now,
		Log:            w.Log,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}, api
}

func (w *world) organizationsConsole(tb testing.TB) http.Handler {
	tb.Helper()
	deps, api := w.dependencies(tb)
	c := must.Get(console.New(deps))(tb)
	w.console = c
	return c.Beside(api)
}

func (w *world) operatorsConsole(tb testing.TB, token string) http.Handler {
	tb.Helper()
	deps, _ := w.dependencies(tb)
	admin := adminapi.New(adminapi.Dependencies{
		Commands:    w.Commands,
		Queries:     w.Queries,
		Readers:     wire.Readers{Await: w.Patient},
		Projections: w.projections,
		Metrics:     prometheus.NewRegistry(),
		Token:       token,
		Log:         w.Log,
		Now:         w.now,
		Uses:        &adapters.CredentialUses{},
	})
	c := must.Get(console.NewForOperators(deps, console.Operators{
		Verify:      admin.Verify,
		StillValid:  admin.StillValid,
		Projections: w.projections,
		System: func(context.Context) (console.System, error) {
			return console.System{
				Version:   "v1.2.3",
				Roles:     []string{"api"},
				StartedAt: w.now(),
				Database:  console.Store{Where: "private", Bytes: 5 << 20},
				Disk:      console.Disk{Path: "/data", Free: 25, Total: 100},
				Settings:  []config.Named{{Variable: "CARILLON_HTTP_ADDR", Value: "127.0.0.1:8080"}},
			}, nil
		},
	}))(tb)
	w.inside = c
	return c.Beside(admin)
}

// projections are the consumers of a test.
type projections struct {
	mu   sync.Mutex
	list []adminapi.Projection
}

// Status implements adminapi.Projections.
func (p *projections) Status(context.Context) ([]adminapi.Projection, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.list), nil
}

// Rebuild implements adminapi.Projections.
func (p *projections) Rebuild(_ context.Context, name string) error {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i := range p.list {
		switch {
		case p.list[i].Name != name || p.list[i].Kind != "readModel":
		case p.list[i].Rebuild != nil:
			return adminapi.ErrRebuilding
		default:
			p.list[i].Rebuild = &adminapi.Rebuild{Done: 40, Total: 100}
			return nil
		}
	}
	return adminapi.ErrNoProjection
}

// Verify implements adminapi.Projections.
func (p *projections) Verify(context.Context, string, float64) error { return adminapi.ErrNoProjection }

// browser keeps a cookie, and sends the headers of a browser.
type browser struct {
	*world
	at     http.Handler // nil means the API's listener
	cookie string
}

// page is an answer.
type page struct {
	status   int
	location string
	header   http.Header
	body     string
}

func (b *browser) send(tb testing.TB, method, path string, form url.Values, header http.Header) page {
	tb.Helper()
	r := httptest.NewRequestWithContext(tb.Context(), method, path, strings.NewReader(form.Encode()))
	r.RemoteAddr, r.Host = "127.0.0.1:40000", "localhost"
	if header.Get("X-Forwarded-For") != "" {
		r.RemoteAddr = "203.0.113.7:40000"
	}
	if method == http.MethodPost {
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	for name, values := range header {
		r.Header[name] = values
	}
	if b.cookie != "" {
		for _, name := range []string{"carillon_console", "carillon_operators"} { // only one of them is set
			r.AddCookie(&http.Cookie{Name: name, Value: b.cookie}) //nolint:gosec // the browser's side of it
		}
	}
	w := httptest.NewRecorder()
	at := b.at
	if at == nil {
		at = b.handler
	}
	at.ServeHTTP(w, r)
	for _, c := range w.Result().Cookies() { //nolint:bodyclose // a recorder's
		b.cookie = c.Value
	}
	return page{
		status:   w.Code,
		location: w.Header().Get("Location"),
		header:   w.Header(),
		body:     w.Body.String(),
	}
}

func (b *browser) get(tb testing.TB, path string) page {
	tb.Helper()
	return b.send(tb, http.MethodGet, path, nil, nil)
}

func (b *browser) post(tb testing.TB, path string, pairs ...string) page {
	tb.Helper()
	form := url.Values{}
	for i := 0; i+1 < len(pairs); i += 2 {
		form.Set(pairs[i], pairs[i+1])
	}
	return b.send(tb, http.MethodPost, path, form, nil)
}

// signIn signs a browser in with a key.
func (w *world) signIn(tb testing.TB, key string) *browser {
	tb.Helper()
	b := &browser{world: w}
	if p := b.post(tb, "/console/sign-in", "key", key); p.status != http.StatusSeeOther || p.location != "/console/" {
		tb.Fatalf("sign-in: %d to %q\n%s", p.status, p.location, p.shown(""))
	}
	return b
}

// expect requires a status, and texts of the page's HTML in which character references are characters.
func (p page) expect(t *testing.T, status int, texts ...string) page {
	t.Helper()
	if p.status != status {
		t.Errorf("status %d, want %d\n%s", p.status, status, p.shown(""))
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(p.body), text) {
			t.Errorf("the page does not say %q:\n%s", text, p.shown(text))
		}
	}
	return p
}

// lacks requires that texts are not in the page's HTML.
func (p page) lacks(t *testing.T, texts ...string) page {
	t.Helper()
	for _, text := range texts {
		assert.True(t, !strings.Contains(p.body, text), "the page says %q:\n%s", text, p.shown(text))
	}
	return p
}

// shown returns the lines of a page that have most words of a text, or without one its heading and errors. They fit on
// a screen.
func (p page) shown(like string) string {
	const most, width = 12, 200
	type line struct{ number, same int }
	all := strings.Split(html.UnescapeString(p.body), "\n")
	var lines []line
	words := strings.Fields(cmp.Or(like, "<h1 error"))
	for i, text := range all {
		if strings.TrimSpace(text) == "" {
			continue
		}
		same := 0
		for _, word := range words {
			if strings.Contains(text, word) {
				same++
			}
		}
		lines = append(lines, line{number: i, same: same})
	}
	slices.SortStableFunc(lines, func(a, b line) int { return b.same - a.same })
	lines = lines[:min(len(lines), most)]
	slices.SortFunc(lines, func(a, b line) int { return a.number - b.number })
	var out strings.Builder
	for _, l := range lines {
		fmt.Fprintf(&out, "%d: %.*s\n", l.number+1, width, strings.TrimSpace(all[l.number]))
	}
	return out.String()
}

func (p page) leadsTo(tb testing.TB, location string) {
	tb.Helper()
	if p.status != http.StatusSeeOther || p.location != location {
		tb.Errorf("%d to %q, want to %q\n%s", p.status, p.location, location, p.shown(""))
	}
}

// destination creates a destination of the organization.
func (w *world) destination(tb testing.TB, name, address string) uuid.UUID {
	tb.Helper()
	made := must.Get(w.Commands.CreateDestination(tb.Context(), w.by(w.org), newDestination(name, address)))(tb)
	w.Await(tb, made.Position, destinations.ReadModel.Name, audit.ReadModel.Name, dispatching.Name)
	return made.ID
}

func newDestination(name, url string) command.CreateDestination {
	return command.CreateDestination{
		DestinationSettings: command.DestinationSettings{Settings: destination.Settings{Name: name, URL: url}},
	}
}

// renamed returns a change of the name.
func renamed(id uuid.UUID, name string) command.ReviseDestination {
	return command.ReviseDestination{
		ID:                  id,
		DestinationSettings: newDestination(name, "").DestinationSettings,
		Sets:                destination.FieldName,
	}
}

func receiver(tb testing.TB, status int, body string) string {
	tb.Helper()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = w.Write([]byte(body))
	}))
	tb.Cleanup(s.Close)
	return s.URL
}
