package adapters_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/eventstore/storetest/must"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

// Two nodes together let no more requests through than one may.
func TestHostileRateOverTwoNodes(t *testing.T) {
	t.Parallel()
	const perSecond, tries = 100, 600
	pool := projecttest.Pool(t, organizations.ReadModel)
	org := uuid.New()
	node := func(ahead time.Duration, most int) *adapters.Ahead {
		rate := adapters.NewRequestRate(pool, nil)
		rate.Now = func() time.Time { return time.Now().Add(ahead) }
		rate.Of.Default = most
		return rate
	}
	nodes := []*adapters.Ahead{node(0, perSecond), node(time.Hour, perSecond)}
	at := func() (seconds float64) { // when the window began
		t.Helper()
		const when = "SELECT extract(epoch FROM window_start)::float8 FROM carillon.rate_limits WHERE organization = $1"
		must.OK(t, pool.QueryRow(t.Context(), when, org).Scan(&seconds))
		return seconds
	}
	var passed atomic.Int64
	take := func(node *adapters.Ahead) bool {
		_, err := node.Take(t.Context(), org)
		if err == nil {
			passed.Add(1)
			return true
		}
		_, refused := errors.AsType[*organization.LimitError](err)
		if !refused {
			t.Error(err)
		}
		return refused
	}
	take(nodes[0])
	began := at()
	var asking sync.WaitGroup
	for _, node := range nodes {
		asking.Go(func() {
			for range tries {
				if !take(node) {
					return
				}
			}
		})
	}
	asking.Wait()
	most := perSecond * (1 + at() - began)
	if n := float64(passed.Load()); n > most || n < perSecond-10 { // each may keep a few that it has not used
		t.Errorf("%v of %d requests passed, want at most %v and at least %d", n, 2*tries, most, perSecond-10)
	}
	for range 2 * tries { // another organization is not touched
		if wait, err := nodes[0].Take(t.Context(), uuid.New()); err != nil || wait != 0 {
			t.Fatalf("another organization waits %s, %v", wait, err)
		}
	}
	if wait, err := node(0, 0).Take(t.Context(), uuid.New()); err == nil || wait == 0 {
		t.Errorf("nothing is allowed, and a request passes: %v", err)
	}
}
