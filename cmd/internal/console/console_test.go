package console_test

import (
	"context"
	"html"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/app"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/cmd/internal/suite"
	"carillon/command"
	"carillon/command/delivery"
	"carillon/eventstore"
	readmodels "carillon/projections"
	"carillon/projections/audit"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
)

// world is both consoles on real parts.
type world struct {
	*apitest.Fixture
	sessions console.Sessions
	handler  http.Handler // of the API's listener
	admin    http.Handler // of the operators' listener
	console  *console.Console
	inside   *console.Console // the operators'
	org      uuid.UUID
	key      string
	later    *atomic.Int64 // nanoseconds, by which the consoles' clock is ahead
	stopped  time.Time     // what the consoles' clock shows, if it stands still

	projections *projections
	collectable []netip.Prefix // what trials of sources may reach
}

// adminToken opens the operators' side.
const adminToken = "0123456789abcdef0123456789abcdef"

// parts are what all tests of the package share: each has an organization and consoles of its own.
var parts = suite.Fixture(start)

func start(tb testing.TB) *apitest.Fixture {
	tb.Helper()
	p := apitest.Start(tb)
	p.Process(tb, func() eventstore.ProcessManager { return delivery.NewDispatcher(p.Store, nil) }) // changes wait for it
	p.Process(tb, func() eventstore.ProcessManager { return adapters.NewFeedCuration(p.Store, p.Commands, p.Log) })
	return p
}

// open returns an organization at consoles of its own.
func open(t *testing.T) *world {
	t.Helper()
	shared := parts(t)
	logged := len(shared.Logged.String())
	t.Cleanup(func() {
		if t.Failed() {
			t.Logf("log:\n%s", shared.Logged.String()[logged:])
		}
	})
	return openOn(t, shared)
}

// openAlone is open for a test that takes a part away, or looks at a list of all organizations.
func openAlone(tb testing.TB) *world {
	tb.Helper()
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
	tester := delivery.Tester{Vault: w.Commands.Vault, Sender: w.Sender, Certificates: w.Certificates, Now: w.now}
	limiter := adapters.NewCheckLimiter(w.Pool, w.now)
	api, err := httpapi.New(httpapi.Dependencies{
		Commands: w.Commands, Queries: w.Queries, Keys: w.Queries, Await: w.Patient, Limiter: limiter, Tester: tester, Wake: func() {},
		Now: w.now, Log: w.Log, Metrics: prometheus.NewRegistry(),
	})
	if err != nil {
		tb.Fatal(err)
	}
	return console.Dependencies{
		Commands: w.Commands, Queries: w.Queries, Sessions: w.sessions, Works: adapters.ConsoleWorks{Pool: w.Pool}, Verify: api.Verify, Admit: api.Admit, Await: w.Patient, Events: w.Store, Limiter: limiter,
		Settle: func(ctx context.Context, model readmodels.ReadModel) error {
			return w.Progress.Settle(ctx, w.Store, model)
		},
		Guesses: console.NewGuesses(), Tester: tester, Wake: func() {}, Now: w.now, Log: w.Log,
		TrustedProxies: []netip.Prefix{netip.MustParsePrefix("203.0.113.0/24")},
	}, api
}

func (w *world) organizationsConsole(tb testing.TB) http.Handler {
	tb.Helper()
	deps, api := w.dependencies(tb)
	c, err := console.New(deps)
	if err != nil {
		tb.Fatal(err)
	}
	w.console = c
	return c.Beside(api)
}

func (w *world) operatorsConsole(tb testing.TB, token string) http.Handler {
	tb.Helper()
	deps, _ := w.dependencies(tb)
	admin := adminapi.New(adminapi.Dependencies{
		Commands: w.Commands, Queries: w.Queries, Await: w.Patient, Projections: w.projections, Metrics: prometheus.NewRegistry(),
		Token: token, Log: w.Log, Now: w.now, Uses: &adapters.CredentialUses{},
	})
	collectors, err := app.Collectors(app.Collecting{Allow: w.collectable, Unhurried: true, Now: w.now})
	if err != nil {
		tb.Fatal(err)
	}
	c, err := console.NewForOperators(deps, console.Operators{
		Verify: admin.Verify, StillValid: admin.StillValid, Projections: w.projections, Collectors: collectors,
		System: func(context.Context) (console.System, error) {
			return console.System{Version: "v1.2.3", Roles: []string{"api"}, StartedAt: w.now(), Database: console.Store{Where: "private", Bytes: 5 << 20},
				Disk: console.Disk{Path: "/data", Free: 25, Total: 100}, Settings: []config.Named{{Variable: "CARILLON_HTTP_ADDR", Value: "127.0.0.1:8080"}}}, nil
		},
	})
	if err != nil {
		tb.Fatal(err)
	}
	w.inside = c
	return c.Beside(admin)
}

// projections are those that a test says there are.
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

// browser keeps a cookie, and says of its requests what browsers say.
type browser struct {
	*world
	at     http.Handler // nil: the API's listener
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
		for _, name := range []string{"carillon_console", "carillon_operators"} { // whichever of them it is
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
	return page{status: w.Code, location: w.Header().Get("Location"), header: w.Header(), body: w.Body.String()}
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

// signIn is a browser that has signed in with a key.
func (w *world) signIn(tb testing.TB, key string) *browser {
	tb.Helper()
	b := &browser{world: w}
	if p := b.post(tb, "/console/sign-in", "key", key); p.status != http.StatusSeeOther || p.location != "/console/" {
		tb.Fatalf("sign-in: %d to %q\n%s", p.status, p.location, p.body)
	}
	return b
}

func (p page) expect(t *testing.T, status int, texts ...string) page {
	t.Helper()
	if p.status != status {
		t.Errorf("status %d, want %d\n%s", p.status, status, p.body)
	}
	for _, text := range texts {
		if !strings.Contains(html.UnescapeString(p.body), text) {
			t.Errorf("the page does not say %q:\n%s", text, p.body)
		}
	}
	return p
}

func (p page) leadsTo(tb testing.TB, location string) {
	tb.Helper()
	if p.status != http.StatusSeeOther || p.location != location {
		tb.Errorf("%d to %q, want to %q\n%s", p.status, p.location, location, p.body)
	}
}

// destination makes one of the organization.
func (w *world) destination(tb testing.TB, name, address string) uuid.UUID {
	tb.Helper()
	made, err := w.Commands.CreateDestination(tb.Context(), command.Caller{Organization: w.org, Actor: "key:test", RequestID: uuid.New()},
		command.CreateDestination{Name: name, URL: address})
	if err != nil {
		tb.Fatal(err)
	}
	w.Await(tb, made.Position, destinations.ReadModel.Name, audit.ReadModel.Name, delivery.DispatcherName)
	return made.ID
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

func TestSignIn(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := &browser{world: w}
	b.get(t, "/console/destinations?page=2").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Fdestinations%3Fpage%3D2")
	b.get(t, "/console/sign-in?next=%2Fconsole%2Fdestinations").expect(t, 200, `value="/console/destinations"`, "API key")
	b.post(t, "/console/sign-in", "key", w.key, "next", "/console/destinations").leadsTo(t, "/console/destinations")
	signedIn := b.get(t, "/console/").expect(t, 200, "Overview", "Town hall", "Sign out")
	if policy := signedIn.header.Get("Content-Security-Policy"); strings.Contains(policy, "unsafe") || !strings.Contains(policy, "default-src 'none'") {
		t.Errorf("policy %q", policy)
	}
	for _, elsewhere := range []string{"https://evil.example/", "//evil.example/", "/console/..//evil", "/events", `/console/\evil`, "/console/enter?token=x"} {
		to := (&browser{world: w}).post(t, "/console/sign-in", "key", w.key, "next", elsewhere).location
		if !strings.HasPrefix(to, "/console/") || strings.Contains(to, "enter") || strings.Contains(to, `\`) {
			t.Errorf("%q leads to %q", elsewhere, to)
		}
	}

	// The cookie travels encrypted, but for this machine, and is out of reach for scripts and other sites.
	form := url.Values{"key": {w.key}}
	for peer, secure := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/sign-in", strings.NewReader(form.Encode()))
		r.RemoteAddr = peer
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		c := recorder.Result().Cookies()[0] //nolint:bodyclose // a recorder's
		if !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Secure != secure || c.Path != "/console" {
			t.Errorf("from %s: %+v", peer, c)
		}
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/sign-in", nil)
	r.RemoteAddr = "203.0.113.9:1"
	recorder := httptest.NewRecorder()
	if w.handler.ServeHTTP(recorder, r); recorder.Code == http.StatusOK {
		t.Error("in the clear, from another machine, the page to type a key into is served")
	}
}

func TestSessionsEnd(t *testing.T) {
	t.Parallel()
	w := open(t)
	out := w.signIn(t, w.key)
	stolen := &browser{world: w, cookie: out.cookie}
	out.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	stolen.get(t, "/console/destinations").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Fdestinations")

	revoked := w.signIn(t, w.key)
	keys, err := w.Queries.Keys(t.Context(), w.org)
	if err != nil || len(keys) != 1 {
		t.Fatal(keys, err)
	}
	at, err := w.Commands.RevokeKey(t.Context(), apitest.Operator, command.RevokeKey{Organization: w.org, KeyID: keys[0].ID})
	if err != nil {
		t.Fatal(err)
	}
	w.Await(t, at, organizations.ReadModel.Name)
	revoked.get(t, "/console/").leadsTo(t, "/console/sign-in")

	old := w.enter(t, w.link(t))
	old.get(t, "/console/").expect(t, 200, "Overview")
	w.later.Store(int64(console.SessionLength + time.Second))
	old.get(t, "/console/").leadsTo(t, "/console/sign-in")
	(&browser{world: w, cookie: "made up"}).get(t, "/console/").leadsTo(t, "/console/sign-in")
}

func (w *world) link(t *testing.T) (token string) {
	t.Helper()
	path, _, err := console.NewLink(t.Context(), w.sessions, w.org, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ = strings.Cut(path, "token=")
	return token
}

func (w *world) enter(t *testing.T, token string) *browser {
	t.Helper()
	b := &browser{world: w}
	b.get(t, "/console/enter?token="+token).expect(t, 200, token) // looking at it uses nothing up
	b.post(t, "/console/enter", "token", token).leadsTo(t, "/console/")
	return b
}

func TestLoginLinks(t *testing.T) {
	t.Parallel()
	w := open(t)
	token := w.link(t)
	w.enter(t, token).get(t, "/console/").expect(t, 200, "Town hall")
	again := &browser{world: w}
	again.post(t, "/console/enter", "token", token).expect(t, 401, "works once")
	again.get(t, "/console/").leadsTo(t, "/console/sign-in")

	late := w.link(t)
	w.later.Store(int64(console.LinkLength + time.Second))
	again.post(t, "/console/enter", "token", late).expect(t, 401, "works once")
	if logged := w.Logged.String(); strings.Contains(logged, token) || strings.Contains(logged, late) || !strings.Contains(logged, "a sign-in at the console failed") {
		t.Error("the log names a token, or no failure")
	}
	if _, _, err := console.NewLink(t.Context(), w.sessions, uuid.New(), time.Now()); err == nil {
		t.Error("an organization that is not there gets a link")
	}
}

func TestGuessesAreLimited(t *testing.T) {
	t.Parallel()
	w := open(t)
	b := &browser{world: w}
	made := "ck_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for range 10 {
		b.post(t, "/console/sign-in", "key", made).expect(t, 401, "not valid")
	}
	b.post(t, "/console/sign-in", "key", w.key).expect(t, 429, "Too many failed tries")

	// Of those behind a proxy, who guesses holds up nobody else.
	behind := func(address, key string) page {
		return (&browser{world: w}).send(t, http.MethodPost, "/console/sign-in", url.Values{"key": {key}},
			http.Header{"X-Forwarded-For": {address}, "X-Forwarded-Proto": {"https"}})
	}
	for range 10 {
		behind("198.51.100.1", made).expect(t, 401, "not valid")
	}
	behind("198.51.100.1", w.key).expect(t, 429, "Too many failed tries")
	behind("198.51.100.2", w.key).leadsTo(t, "/console/")
	w.later.Store(int64(2 * time.Minute))
	b.post(t, "/console/sign-in", "key", w.key).leadsTo(t, "/console/")
}

// What changes something comes from a page of the console.
func TestForgedRequestsChangeNothing(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	b := w.signIn(t, w.key)
	for name, header := range map[string]http.Header{
		"another site":        {"Sec-Fetch-Site": {"cross-site"}},
		"a site beside":       {"Sec-Fetch-Site": {"same-site"}},
		"an older browser":    {"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}},
		"of null":             {"Sec-Fetch-Site": nil, "Origin": {"null"}},
		"who says nothing":    {"Sec-Fetch-Site": nil},
		"typed, or a program": {"Sec-Fetch-Site": {"none"}},
	} {
		for _, path := range []string{"/disable", "/delete", "/rotate", "/edit", "/test"} {
			b.send(t, http.MethodPost, "/console/destinations/"+id.String()+path, nil, header).expect(t, 400, "nothing was changed")
		}
		t.Log(name)
	}
	b.send(t, http.MethodPost, "/console/destinations/"+id.String()+"/disable", nil, http.Header{"Sec-Fetch-Site": nil, "Origin": {"http://localhost"}}).
		leadsTo(t, "/console/destinations/"+id.String()+"?done=disabled")
}

var links = regexp.MustCompile(`(?:href|action)="(/console[^"]*)"`)

// walk follows all links from a page on, and gives the pages.
func (b *browser) walk(t *testing.T, from string) map[string]page {
	t.Helper()
	seen, ahead := map[string]page{}, []string{from}
	for len(ahead) > 0 {
		path := ahead[0]
		ahead = ahead[1:]
		if _, known := seen[path]; known || strings.Contains(path, "/static/") {
			continue
		}
		p := b.get(t, path)
		seen[path] = p
		for _, found := range links.FindAllStringSubmatch(p.body, -1) {
			ahead = append(ahead, html.UnescapeString(found[1]))
		}
	}
	return seen
}

func TestNothingOfOthersIsShown(t *testing.T) {
	t.Parallel()
	w := open(t)
	id := w.destination(t, "Hidden name", receiver(t, 204, ""))
	w.signIn(t, w.key).get(t, "/console/destinations/"+id.String()).expect(t, 200, "Hidden name")
	own := w.signIn(t, w.key).walk(t, "/console/")
	_, otherKey := w.Organization(t, "Library")
	other := w.signIn(t, otherKey)
	for path := range own {
		if !strings.Contains(path, id.String()) {
			continue
		}
		theirs := other.get(t, path)
		missing := other.get(t, strings.ReplaceAll(path, id.String(), uuid.NewString()))
		if theirs.status != 404 || ids.ReplaceAllString(theirs.body, "") != ids.ReplaceAllString(missing.body, "") {
			t.Errorf("%s: %d, and not as a page that is missing:\n%s", path, theirs.status, theirs.body)
		}
	}
	for _, change := range []string{"disable", "enable", "delete", "rotate", "test", "validate", "edit"} {
		other.post(t, "/console/destinations/"+id.String()+"/"+change, "name", "x", "url", "https://example.org", "debounce", "0").expect(t, 404, "Not found")
	}
	if found, err := w.Queries.Destination(context.Background(), w.org, id.String(), time.Now()); err != nil || found.Status != "enabled" || found.Name != "Hidden name" {
		t.Errorf("%+v, %v", found, err)
	}
	if len(own) < 12 {
		t.Errorf("%d pages were walked", len(own))
	}
}

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
