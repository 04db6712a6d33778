package console_test

import (
	"html"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
)

func TestSignIn(t *testing.T) {
	w := open(t)
	b := &browser{world: w}
	b.get(t, "/console/destinations?page=2").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Fdestinations%3Fpage%3D2")
	b.get(t, "/console/sign-in?next=%2Fconsole%2Fdestinations").expect(t, 200, `value="/console/destinations"`, "API key")
	b.post(t, "/console/sign-in", "key", w.key, "next", "/console/destinations").leadsTo(t, "/console/destinations")
	signedIn := b.get(t, "/console/").expect(t, 200, "Overview", "Town hall", "Sign out")
	policy := signedIn.header.Get("Content-Security-Policy")
	assert.True(t, !strings.Contains(policy, "unsafe") && strings.Contains(policy, "default-src 'none'"),
		"policy %q", policy)
	for _, withParameter := range []string{"https://evil.example/", "//evil.example/", "/console/..//evil", "/events",
		`/console/\evil`, "/console/enter?token=x"} {
		to := (&browser{world: w}).post(t, "/console/sign-in", "key", w.key, "next", withParameter).location
		assert.True(t, strings.HasPrefix(to, "/console/") && !strings.Contains(to, "enter") && !strings.Contains(to, `\`),
			"%q leads to %q", withParameter, to)
	}

	// The cookie is sent over TLS only, except on this machine, and not to scripts and other sites.
	form := url.Values{"key": {w.key}}
	for peer, secure := range map[string]bool{"127.0.0.1:1": false, "[::1]:1": false} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/console/sign-in",
			strings.NewReader(form.Encode()))
		r.RemoteAddr = peer
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		r.Header.Set("Sec-Fetch-Site", "same-origin")
		recorder := httptest.NewRecorder()
		w.handler.ServeHTTP(recorder, r)
		c := recorder.Result().Cookies()[0] //nolint:bodyclose // a recorder's
		assert.True(t, c.HttpOnly && c.SameSite == http.SameSiteStrictMode && c.Secure == secure && c.Path == "/console",
			"from %s: %+v", peer, c)
	}
	r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/console/sign-in", nil)
	r.RemoteAddr = "203.0.113.9:1"
	recorder := httptest.NewRecorder()
	if w.handler.ServeHTTP(recorder, r); recorder.Code == http.StatusOK {
		t.Error("in the clear, from another machine, the page to type a key into is served")
	}
}

// TestFrames: only pages of the origins that a setting names may frame the console; the session is one of their site
// then. No setting allows a frame around the operators' console.
func TestFrames(t *testing.T) {
	w := open(t)
	deps, api := w.dependencies(t)
	deps.Origins = []string{"https://portal.example.org"}
	framed := must.Get(console.New(deps))(t).Beside(api)
	inside := must.Get(console.NewForOperators(deps, console.Operators{}))(t)
	for want, at := range map[string]http.Handler{
		"; frame-ancestors https://portal.example.org": framed, "; frame-ancestors 'none'": w.handler,
	} {
		p := (&browser{world: w, at: at}).post(t, "/console/sign-in", "key", w.key)
		policy := p.header.Get("Content-Security-Policy")
		assert.True(t, strings.HasSuffix(policy, want), "policy %q, want %q", policy, want)
		cookie := p.header.Get("Set-Cookie")
		if strings.HasSuffix(cookie, "; HttpOnly; Secure; SameSite=None; Partitioned") != strings.Contains(want, "portal") {
			t.Errorf("%s: the cookie is %q", want, cookie)
		}
	}
	p := (&browser{world: w, at: inside}).get(t, "/console/sign-in")
	if policy := p.header.Get("Content-Security-Policy"); !strings.HasSuffix(policy, "'none'") {
		t.Errorf("the operators' console may be framed: %q", policy)
	}
}

func TestSessionsEnd(t *testing.T) {
	w := open(t)
	out := w.signIn(t, w.key)
	stolen := &browser{world: w, cookie: out.cookie}
	out.post(t, "/console/sign-out").leadsTo(t, "/console/sign-in")
	stolen.get(t, "/console/destinations").leadsTo(t, "/console/sign-in?next=%2Fconsole%2Fdestinations")

	revoked := w.signIn(t, w.key)
	keys, err := w.Queries.Keys(t.Context(), w.org)
	must.True(t, err == nil && len(keys) == 1, "%v %v", keys, err)
	changed := must.Get(w.Commands.RevokeKey(t.Context(), apitest.Operator, command.RevokeKey{
		Organization: w.org,
		KeyID:        keys[0].ID,
	}))(t)
	w.Await(t, changed.Position, organizations.ReadModel.Name)
	revoked.get(t, "/console/").leadsTo(t, "/console/sign-in")

	old := w.enter(t, w.link(t))
	old.get(t, "/console/").expect(t, 200, "Overview")
	w.later.Store(int64(console.SessionLength + time.Second))
	old.get(t, "/console/").leadsTo(t, "/console/sign-in")
	(&browser{world: w, cookie: "made up"}).get(t, "/console/").leadsTo(t, "/console/sign-in")
}

// link makes a login link for a person.
func (w *world) link(t *testing.T, scopes ...organization.Scope) (token string) {
	t.Helper()
	path, _, err := console.NewLink(t.Context(), w.sessions, adminapi.ConsoleVisitor{
		Organization: w.org,
		Person:       "ann@example.org",
		Scopes:       scopes,
	}, time.Now())
	must.OK(t, err)
	_, token, _ = strings.Cut(path, "token=")
	return token
}

func (w *world) enter(t *testing.T, token string) *browser {
	t.Helper()
	b := &browser{world: w}
	b.get(t, "/console/enter?token="+token).expect(t, 200, token) // looking at it does not consume it
	b.post(t, "/console/enter", "token", token).leadsTo(t, "/console/")
	return b
}

func TestLoginLinks(t *testing.T) {
	w := open(t)
	token := w.link(t)
	ann := w.enter(t, token)
	ann.get(t, "/console/").expect(t, 200, "ann@example.org, Town hall")
	made := ann.post(t, "/console/feeds/new", "name", "Fair", "description", "A fair", "enabled", "yes")
	if made.status != 303 || !strings.Contains(w.Logged.String(), `session=console:ann@example.org`) {
		t.Errorf("the person is not named: %d %s", made.status, made.shown(""))
	}
	reader := w.enter(t, w.link(t, organization.ScopeRead))
	reader.get(t, "/console/feeds").expect(t, 200, "Fair")
	reader.post(t, "/console/feeds/new", "name", "Market", "description", "x").expect(t, 403, "scope write")
	again := &browser{world: w}
	again.post(t, "/console/enter", "token", token).expect(t, 401, "works once")
	again.get(t, "/console/").leadsTo(t, "/console/sign-in")

	late := w.link(t)
	w.later.Store(int64(console.LinkLength + time.Second))
	again.post(t, "/console/enter", "token", late).expect(t, 401, "works once")
	logged := w.Logged.String()
	assert.True(t, !strings.Contains(logged, token) && !strings.Contains(logged, late) &&
		strings.Contains(logged, "console sign-in failed"), "the log names a token, or no failure")
	if _, _, err := console.NewLink(t.Context(), w.sessions, adminapi.ConsoleVisitor{Organization: uuid.New()},
		time.Now()); err == nil {
		t.Error("an organization that is not there gets a link")
	}
}

func TestFailedSignInsAreLimited(t *testing.T) {
	w := open(t)
	w.stopped = time.Now() // every six seconds, another failure is allowed
	b := &browser{world: w}
	made := "ck_AAAAAAAA_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"
	for range 10 {
		b.post(t, "/console/sign-in", "key", made).expect(t, 401, "not valid")
	}
	b.post(t, "/console/sign-in", "key", w.key).expect(t, 429, "Too many failed sign-ins")

	// Failed sign-ins behind a proxy delay their own address only.
	behind := func(address, key string) page {
		return (&browser{world: w}).send(t, http.MethodPost, "/console/sign-in", url.Values{"key": {key}},
			http.Header{"X-Forwarded-For": {address}, "X-Forwarded-Proto": {"https"}})
	}
	for range 10 {
		behind("198.51.100.1", made).expect(t, 401, "not valid")
	}
	behind("198.51.100.1", w.key).expect(t, 429, "Too many failed sign-ins")
	behind("198.51.100.2", w.key).leadsTo(t, "/console/")
	w.later.Store(int64(2 * time.Minute))
	b.post(t, "/console/sign-in", "key", w.key).leadsTo(t, "/console/")
}

// TestForgedRequestsChangeNothing: changes are accepted from pages of the console only.
func TestForgedRequestsChangeNothing(t *testing.T) {
	w := open(t)
	id := w.destination(t, "Hook", receiver(t, 204, ""))
	b := w.signIn(t, w.key)
	for name, header := range map[string]http.Header{
		"another site":     {"Sec-Fetch-Site": {"cross-site"}},
		"a site beside":    {"Sec-Fetch-Site": {"same-site"}},
		"an older browser": {"Sec-Fetch-Site": nil, "Origin": {"https://evil.example"}},
		"of null":          {"Sec-Fetch-Site": nil, "Origin": {"null"}},
	} {
		for _, path := range []string{"/disable", "/delete", "/rotate", "/edit", "/test", "/subscriptions/new"} {
			b.send(t, http.MethodPost, "/console/destinations/"+id.String()+path, nil, header).expect(t, 400,
				"nothing was changed")
		}
		t.Log(name)
	}
	b.send(t, http.MethodPost, "/console/destinations/"+id.String()+"/disable", nil, http.Header{"Sec-Fetch-Site": nil,
		"Origin": {"http://localhost"}}).
		leadsTo(t, "/console/destinations/"+id.String()+"?done=disabled")
}

var links = regexp.MustCompile(`(?:href|action)="(/console[^"#]*)`)

// walk follows all links from a page, and returns the pages.
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

var ids = regexp.MustCompile(`[0-9a-f]{8}-[0-9a-f-]{27}`)
