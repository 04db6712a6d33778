package adapters_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/projections/projecttest"
)

// Two nodes together let no more requests through than one may.
func TestHostileRateOverTwoNodes(t *testing.T) {
	t.Parallel()
	const perSecond, tries = 100, 600
	pool := projecttest.Pool(t)
	org := uuid.New()
	nodes := []*adapters.RequestRate{{Pool: pool, Now: time.Now}, {Pool: pool, Now: func() time.Time {
		return time.Now().Add(time.Hour)
	}}}
	at := func() (seconds float64) { // by the clock of the bucket, which fills by it
		t.Helper()
		const when = "SELECT extract(epoch FROM at)::float8 FROM carillon.request_tokens WHERE organization = $1"
		if err := pool.QueryRow(t.Context(), when, org).Scan(&seconds); err != nil {
			t.Fatal(err)
		}
		return seconds
	}
	var passed atomic.Int64
	take := func(node *adapters.RequestRate) bool {
		wait, err := node.Take(t.Context(), org, perSecond)
		if err != nil {
			t.Error(err)
		}
		if err == nil && wait == 0 {
			passed.Add(1)
		}
		return err == nil
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
		if wait, err := nodes[0].Take(t.Context(), uuid.New(), perSecond); err != nil || wait != 0 {
			t.Fatalf("another organization waits %s, %v", wait, err)
		}
	}
	if wait, err := nodes[0].Take(t.Context(), uuid.New(), 0); err != nil || wait == 0 {
		t.Errorf("nothing is allowed, and a request passes: %v", err)
	}
}
