package console_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// asked counts the lookups of sessions.
type asked struct {
	console.Sessions

	finds, ends atomic.Int64
}

// Find implements console.Sessions.
func (a *asked) Find(ctx context.Context, hash []byte, now time.Time) (console.Session, error) {
	a.finds.Add(1)
	return a.Sessions.Find(ctx, hash, now)
}

// End implements console.Sessions.
func (a *asked) End(ctx context.Context, hash []byte) error {
	a.ends.Add(1)
	return a.Sessions.End(ctx, hash)
}

// TestHostileSessions_lookupLimit: some of many invented sessions are looked up, and no more, while others at the
// same address are served.
func TestHostileSessions_lookupLimit(t *testing.T) {
	w := open(t)
	w.stopped = time.Now()
	deps, _ := w.dependencies(t)
	sessions := &asked{Sessions: deps.Sessions}
	deps.Sessions = sessions
	c := must.Get(console.New(deps))(t)
	w.handler = c
	owner := w.signIn(t, w.key)
	owner.get(t, "/console/").expect(t, 200)
	sessions.finds.Store(0)

	made := func(token string) *browser { return &browser{world: w, cookie: token} }
	for _, token := range []string{"x", strings.Repeat("A", 42), strings.Repeat("=", 43), "a b"} {
		made(token).get(t, "/console/")
	}
	assert.Equal(t, sessions.finds.Load(), 0, "questions about what can't be a token")
	const most = 1000 // at once, from one address
	const tries = most + 200
	refused, chance := 0, random(t)
	for i := range tries {
		var token [32]byte
		for i := range token {
			token[i] = byte(chance.Uint32())
		}
		stranger := made(base64.RawURLEncoding.EncodeToString(token[:]))
		answer := stranger.get
		if i%2 == 0 {
			answer = func(tb testing.TB, _ string) page { return stranger.post(tb, "/console/sign-out") }
		}
		switch p := answer(t, "/console/"); p.status {
		case http.StatusSeeOther:
		case http.StatusTooManyRequests:
			refused++
		default:
			t.Fatalf("%d %s", p.status, p.shown(""))
		}
	}
	if n := sessions.finds.Load(); n > most || refused < tries-most || sessions.ends.Load() != 0 {
		t.Errorf("%d questions, %d refused and %d ends of %d made-up sessions", n, refused, sessions.ends.Load(), tries)
	}
	owner.get(t, "/console/").expect(t, 200) // from the same address
}

// TestHostileSessions_oldestEnds: an organization has at most a thousand sessions; another one ends the oldest.
func TestHostileSessions_oldestEnds(t *testing.T) {
	w := open(t)
	_, other := w.Organization(t, "Somebody else")
	first, second, theirs := w.signIn(t, w.key), w.signIn(t, w.key), w.signIn(t, other)
	expires := time.Now().Add(console.SessionLength + time.Minute)
	must.Get(w.Pool.Exec(t.Context(), `INSERT INTO carillon.console_sessions (hash, role, organization, key, name,
		expires_at)
		SELECT decode(md5($1::text || n), 'hex') || decode(md5(n || $1::text), 'hex'), 'organization', $1::text::uuid, 'one',
		'', $2 FROM generate_series(1, 998) n`, w.org.String(), expires))(t)
	must.OK(t, w.sessions.Begin(t.Context(), fmt.Appendf(nil, "%s", w.org)[:32], console.Session{
		Role:         console.ForOrganization,
		Organization: w.org,
		Key:          "one",
		ExpiresAt:    expires,
	}, time.Now()))
	first.get(t, "/console/").leadsTo(t, "/console/sign-in")
	second.get(t, "/console/").expect(t, 200)
	theirs.get(t, "/console/").expect(t, 200)
}

// TestHostileVisitors_requestLimit: people at the console and the keys of their organization share its limit of
// requests; other organizations and operators are not affected.
func TestHostileVisitors_requestLimit(t *testing.T) {
	w := open(t)
	w.stopped = time.Now()
	deps, _ := w.dependencies(t)
	rate := adapters.NewRequestRate(w.Pool, nil)
	rate.Now = w.now
	api := must.Get(httpapi.New(httpapi.Dependencies{
		Commands: w.Commands,
		Queries:  w.Queries,
		Keys:     w.Queries,
		Readers:  wire.Readers{Await: w.Patient},
		Limiter:  deps.Limiter,
		Tester:   deps.Tester,
		Now:      w.now,
		Log:      w.Log,
		Metrics:  prometheus.NewRegistry(),
		Rate:     rate,
	}))(t)
	deps.Admit = api.Admit
	c := must.Get(console.New(deps))(t)
	w.handler = c
	_, other := w.Organization(t, "Somebody else")
	one, two, theirs, operator := w.signIn(t, w.key), w.signIn(t, w.key), w.signIn(t, other), w.operator(t)
	w.limit(t, organization.LimitRequestsPerSecond, 1)
	w.later.Store(int64(2 * time.Second)) // releases what was counted under the previous limit
	must.Get(w.Pool.Exec(t.Context(), "UPDATE carillon.rate_limits SET window_start = '-infinity'"))(t)
	passed := 0
	const tries = 10
	for i := range tries {
		who := []*browser{one, two}[i%2]
		switch p := who.get(t, "/console/destinations"); p.status {
		case http.StatusOK:
			passed++
		case http.StatusTooManyRequests:
			p.expect(t, http.StatusTooManyRequests, "requestsPerSecond")
			theirs.get(t, "/console/destinations").expect(t, 200)
			operator.get(t, "/console/organizations/"+w.org.String()+"/destinations").expect(t, 200)
		default:
			t.Fatalf("%d %s", p.status, p.shown(""))
		}
	}
	if passed == 0 || passed > 3 { // Postgres goes by its own clock until it refuses one
		t.Errorf("%d of %d passed within a second, want 1", passed, tries)
	}
}

// random returns a random source. CARILLON_TEST_SEED sets a logged seed again.
func random(t *testing.T) *rand.Rand {
	t.Helper()
	seed := rand.Uint64()
	if set := os.Getenv("CARILLON_TEST_SEED"); set != "" {
		seed = must.Get(strconv.ParseUint(set, 10, 64))(t)
	}
	t.Logf("CARILLON_TEST_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // not a secret
}
