package httpapi_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/httpapi"
	"carillon/command/credential"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
	"carillon/query"
)

// asked counts the questions about keys.
type asked struct {
	httpapi.Keys
	times atomic.Int64
}

func (a *asked) FindKeys(ctx context.Context, ids []string, now time.Time) ([]query.Key, error) {
	a.times.Add(1)
	return a.Keys.FindKeys(ctx, ids, now)
}

// counting serves on a clock that stands still, and counts what is asked about keys.
func (s *server) counting(t *testing.T) (*asked, *clock) {
	t.Helper()
	c := s.clock(t)
	keys := &asked{Keys: s.Queries}
	s.rewire(t, func(p *httpapi.Dependencies) { p.Now, p.Keys = c.now, keys })
	return keys, c
}

func madeUp(i int) string { return fmt.Sprintf("ck_%08d_%s", i, strings.Repeat("0", 43)) }

const (
	burst = 1000 // made-up keys that one address may ask for at once
	rate  = 100  // and in each second
)

// flood lists feeds n times at once, which must be answered with one status. That the answers keep to the contract is
// shown by the requests beside it.
func (s *server) flood(t *testing.T, n, status int, in func(i int) request) {
	t.Helper()
	var others atomic.Int64
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			r := in(i)
			r.path = feedsPath
			if got := s.send(t, s.api, r); got.status != status {
				others.Add(1)
			}
		})
	}
	all.Wait()
	assert.True(t, others.Load() <= 0, "%d of %d requests are not answered %d", others.Load(), n, status)
}

func TestHostileKeyIsAskedForOnce(t *testing.T) {
	s := serve(t)
	keys, c := s.counting(t)
	s.as(madeUp(1)).get(t, "/feeds/events").refused(t, 401, "UNAUTHORIZED", "Invalid or missing API key")
	// more than an address may ask for
	s.flood(t, 2*burst, http.StatusUnauthorized, func(int) request { return request{key: madeUp(1)} })
	assert.Equal(t, keys.times.Load(), 1, "one made-up key cost … questions")
	c.pass(time.Second)
	s.as(madeUp(1)).get(t, "/feeds/events").refused(t, 401, "UNAUTHORIZED", "Invalid")
	assert.Equal(t, keys.times.Load(), 2, "a second later … questions")
}

// Made-up keys delay their own address, and no other.
func TestHostileAddressIsHeldBack(t *testing.T) {
	s := serve(t)
	keys, c := s.counting(t)
	s.get(t, "/feeds/events").into(t, 200, new([]any)) // from the same address
	later := s.IssueKey(t, s.org, nil)
	s.flood(t, burst, http.StatusUnauthorized, func(i int) request { return request{key: madeUp(i)} })
	before := keys.times.Load()
	s.flood(t, burst, http.StatusTooManyRequests, func(i int) request { return request{key: madeUp(burst + i)} })
	for i := range 5 {
		for _, path := range []string{"/feeds/events", "/events/types"} {
			got := s.as(madeUp(burst+i)).get(t, path)
			got.refused(t, 429, "RATE_LIMITED", "from this address")
			must.Equal(t, got.header.Get("Retry-After"), "1", "Retry-After")
		}
	}
	if n := keys.times.Load(); n != before {
		t.Errorf("beyond the limit %d questions", n-before)
	}
	s.get(t, "/feeds/events").into(t, 200, new([]any))
	https := map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": "198.51.100.1, 192.0.2.77"}
	s.do(t, request{
		path:   "/feeds/events",
		key:    later,
		peer:   "203.0.113.9:1",
		header: https,
	}).into(t, 200, new([]any))
	c.pass(time.Second)
	s.flood(t, rate, http.StatusUnauthorized, func(i int) request { return request{key: madeUp(10*burst + i)} })
	s.as(madeUp(11*burst)).get(t, "/feeds/events").refused(t, 429, "RATE_LIMITED", "from this address")
	c.pass(400 * time.Millisecond) // formerly valid keys are looked up, despite other callers at the address
	s.get(t, "/feeds/events").into(t, 200, new([]any))
}

// Whom a proxy names is believed of trusted proxies only.
func TestHostileAddressBehindProxies(t *testing.T) {
	s := serve(t)
	s.counting(t)
	exhaust := func(peer, forwarded string, first int) {
		header := map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": forwarded}
		s.flood(t, burst, http.StatusUnauthorized, func(i int) request {
			return request{key: madeUp(first + i), peer: peer, header: header}
		})
	}
	exhaust("203.0.113.9:1", "10.0.0.1, 192.0.2.1", 0)
	exhaust("127.0.0.1:1", "192.0.2.9", burst) // no proxy: its headers are ignored
	next := 9 * burst
	for name, tt := range map[string]struct {
		peer, forwarded string
		status          int
	}{
		"the same":                           {"203.0.113.9:2", "192.0.2.1", 429},
		"the same, by two proxies":           {"203.0.113.9:2", "192.0.2.1, 203.0.113.77", 429},
		"the same, that names another":       {"203.0.113.9:2", "192.0.2.2,192.0.2.1", 429},
		"another":                            {"203.0.113.9:2", "192.0.2.2", 401},
		"an unknown peer":                    {"203.0.113.9:2", "", 401},
		"named by an untrusted peer":         {"203.0.113.9:2", "192.0.2.9", 401},
		"an untrusted peer, with a new name": {"127.0.0.1:1", "192.0.2.10", 429},
	} {
		got := s.do(t, request{
			path:   "/feeds/events",
			key:    madeUp(next),
			peer:   tt.peer,
			header: map[string]string{"X-Forwarded-Proto": "https", "X-Forwarded-For": tt.forwarded},
		})
		if next++; got.status != tt.status {
			t.Errorf("%s: answered %d %s, want %d", name, got.status, got.body, tt.status)
		}
	}
}

// A key works soon after it was issued, even if it was looked up before.
func TestHostileQuestionBeforeTheKey(t *testing.T) {
	s := serve(t)
	_, c := s.counting(t)
	key := credential.New(credential.APIKey)
	s.as(key.Reveal()).get(t, "/feeds/events").refused(t, 401, "UNAUTHORIZED", "Invalid")
	out := must.Get(organization.Aggregate.Execute(t.Context(), s.Store, s.org,
		organization.IssueKey{
			KeyID:  key.ID,
			Hash:   key.Hash(),
			Scopes: organization.AllScopes(),
			At:     c.now(),
		}, organization.Options{}))(t)
	s.Await(t, out.Position, organizations.ReadModel.Name)
	c.pass(400 * time.Millisecond)
	s.as(key.Reveal()).get(t, "/feeds/events").into(t, 200, new([]any))
}

// stuck is a Postgres that answers on request.
type stuck struct {
	release chan struct{}
	times   atomic.Int64
}

func (s *stuck) FindKeys(context.Context, []string, time.Time) ([]query.Key, error) {
	s.times.Add(1)
	<-s.release
	return nil, nil
}

// While one question is in progress, all other keys wait for the next one together.
func TestHostileKeysShareQuestions(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		keys := &stuck{release: make(chan struct{})}
		api := must.Get(httpapi.New(httpapi.Dependencies{
			Keys:    keys,
			Now:     time.Now,
			Log:     slog.New(slog.DiscardHandler),
			Metrics: prometheus.NewRegistry(),
		}))(t)
		var refused atomic.Int64
		for i := range burst / 2 {
			go func() {
				r := httptest.NewRequest(http.MethodGet, "/feeds/events", http.NoBody)
				r.RemoteAddr = "127.0.0.1:1"
				r.Header.Set("Authorization", "Bearer "+madeUp(i))
				w := httptest.NewRecorder()
				api.ServeHTTP(w, r)
				if w.Code == http.StatusUnauthorized {
					refused.Add(1)
				}
			}()
		}
		synctest.Wait()
		close(keys.release)
		synctest.Wait()
		assert.True(t, keys.times.Load() == 2 && refused.Load() == burst/2,
			"%d keys were refused, with %d questions; want all of them, with 2", refused.Load(), keys.times.Load())
	})
}
