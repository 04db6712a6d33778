package adapters_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/command"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func limiter(t *testing.T) *adapters.Limiter {
	t.Helper()
	t.Parallel()
	l := adapters.NewCheckLimiter(projecttest.Pool(t, organizations.ReadModel))
	l.Of.Default = 3
	return l
}

// begun moves the present window to a time from now.
func begun(t *testing.T, l *adapters.Limiter, in time.Duration) {
	t.Helper()
	must.Get(l.Pool.Exec(t.Context(),
		"UPDATE carillon.rate_limits SET window_start = clock_timestamp() + $1::interval", in))(t)
}

func TestRateLimitAndItsEnd(t *testing.T) {
	l := limiter(t)
	org, other := uuid.New(), uuid.New()
	for range 3 {
		must.OK(t, l.Take(t.Context(), org))
	}
	begun(t, l, -15*time.Second)
	var refusal *command.Refusal
	if err := l.Take(t.Context(), org); !errors.As(err, &refusal) || refusal.Kind != command.RateLimited ||
		refusal.RetryAfter > 45*time.Second || refusal.RetryAfter < time.Second {
		t.Fatalf("error = %v (%+v), want a refusal for 45 s", err, refusal)
	}
	must.OK(t, l.Take(t.Context(), other))
	begun(t, l, -time.Minute)
	must.OK(t, l.Take(t.Context(), org))
}

func TestManyAtOnceShareOneLimit(t *testing.T) {
	l := limiter(t)
	org := uuid.New()
	var allowed atomic.Int64
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 4 {
				if l.Take(t.Context(), org) == nil {
					allowed.Add(1)
				}
			}
		})
	}
	group.Wait()
	assert.Equal(t, allowed.Load(), 3, "were allowed")
}

func TestUnavailableCounters(t *testing.T) {
	l := limiter(t)
	l.Pool.Close()
	assert.Is(t, l.Take(t.Context(), uuid.New()), command.ErrUnavailable, "error")
}

// While Postgres is slow, a write waits no longer than its request, and all that wait get one answer.
func TestWritesWithSlowPostgres(t *testing.T) {
	t.Parallel()
	pool := apitest.Prepared.Pool(t)
	writes := adapters.NewWrites(pool, nil)
	slow := must.Get(pool.Begin(t.Context()))(t)
	defer func() { _ = slow.Rollback(context.WithoutCancel(t.Context())) }()
	must.Get(slow.Exec(t.Context(), "LOCK TABLE carillon.rate_limits"))(t)
	const many = 8
	of, answers := uuid.New(), make(chan error, many)
	take := func(ctx context.Context) {
		_, err := writes.Take(ctx, of)
		answers <- err
	}
	for range many {
		go take(t.Context())
	}
	must.Eventually(t, "Postgres is asked", func() (asked bool) {
		must.OK(t, slow.QueryRow(t.Context(), `SELECT EXISTS (SELECT FROM pg_locks
			WHERE relation = 'carillon.rate_limits'::regclass AND NOT granted)`).Scan(&asked))
		return asked
	})
	gone, leave := context.WithCancel(t.Context())
	leave()
	canceled := make(chan error, 1)
	go func() {
		_, err := writes.Take(gone, of)
		canceled <- err
	}()
	select {
	case err := <-canceled:
		assert.Is(t, err, context.Canceled, "a request that has gone")
	case <-time.After(patience / 4):
		t.Fatal("a request that has gone waits for Postgres")
	}
	must.OK(t, slow.Rollback(t.Context()))
	for range many {
		must.OK(t, <-answers)
	}
	var counted int
	if err := pool.QueryRow(t.Context(), "SELECT count FROM carillon.rate_limits WHERE organization = $1", of).
		Scan(&counted); err != nil || counted != 100 {
		t.Errorf("%d writes counted (%v), want 100 by one question", counted, err)
	}
}

// After a failure, writes pass for a second without asking Postgres again.
func TestWritesPassAfterFailure(t *testing.T) {
	t.Parallel()
	pool, now := apitest.Prepared.Pool(t), noon
	writes := adapters.NewWrites(pool, nil)
	writes.Now = func() time.Time { return now }
	pool.Close()
	for _, c := range []struct {
		at   time.Duration
		asks bool
	}{{0, true}, {0, false}, {999 * time.Millisecond, false}, {time.Second, true}} {
		now = noon.Add(c.at)
		_, err := writes.Take(t.Context(), uuid.UUID{1})
		assert.True(t, (err != nil) == c.asks, "after %s: %v; asks %v", c.at, err, c.asks)
	}
}

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
		assert.True(t, refused, "%v", err)
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
		must.Equal(t, must.Get(nodes[0].Take(t.Context(), uuid.New()))(t), 0, "another organization waits")
	}
	if wait, err := node(0, 0).Take(t.Context(), uuid.New()); err == nil || wait == 0 {
		t.Errorf("nothing is allowed, and a request passes: %v", err)
	}
}

// TestHostileWindowInTheFuture: windows that began by a clock that was ahead and was put right limit no organization
// for longer than a window; and one that began seconds ahead gives none more.
func TestHostileWindowInTheFuture(t *testing.T) {
	l := limiter(t)
	org := uuid.New()
	for _, ahead := range []time.Duration{0, 24 * time.Hour, 2 * time.Minute} {
		begun(t, l, ahead)
		for range l.Of.Default {
			if err := l.Take(t.Context(), org); err != nil {
				t.Fatalf("a window that begins in %s holds: %v", ahead, err)
			}
		}
		begun(t, l, 30*time.Second)
		var refusal *command.Refusal
		if err := l.Take(t.Context(), org); !errors.As(err, &refusal) || refusal.RetryAfter > 90*time.Second {
			t.Errorf("a window that begins in 30 s: %v", err)
		}
	}
}

// TestHostileClaimInTheFuture: an unsettled claim, made by a clock that was ahead, expires like any other.
func TestHostileClaimInTheFuture(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t, organizations.ReadModel, destinations.ReadModel)
	quotas := &adapters.Quotas{Pool: pool, Log: slog.New(slog.DiscardHandler)}
	org := uuid.New()
	claim := func(n int) error {
		return quotas.Claim(t.Context(), org, organization.LimitDestinations, uuid.New(), n)
	}
	all := organization.Defaults()[organization.LimitDestinations]
	must.OK(t, claim(all))
	var reached *organization.LimitError
	err := claim(1)
	must.True(t, errors.As(err, &reached), "one too many: %v", err)
	must.Get(pool.Exec(t.Context(), "UPDATE carillon.quota_claims SET claimed_at = now() + interval '1 day'"))(t)
	must.OK(t, claim(1))
}

// A limit that nothing counts keeps the program from its start; the counters of the others run.
func TestLimitsHaveCounters(t *testing.T) {
	t.Parallel()
	quotas := adapters.Quotas{Pool: apitest.Prepared.Pool(t), Log: slog.New(slog.DiscardHandler)}
	for _, limit := range adapters.CountedLimits() {
		func() {
			defer func() {
				assert.True(t, recover() != nil, "starts without a counter of %s", limit)
			}()
			adapters.WithoutCounter(limit)
		}()
		assert.Is(t, quotas.Claim(t.Context(), uuid.New(), limit, uuid.New(), 1), nil, "%s", limit)
		assert.True(t, limit.Definition().Default != 0, "%s is counted, but not declared", limit)
	}
}

// A process whose clock is wrong, or is stepped, uses Postgres' clock from its first look on.
func TestClockFollowsPostgres(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t)
	for _, wrong := range []time.Duration{10 * time.Minute, -24 * time.Hour, 0} {
		own := func() time.Time { return time.Now().Add(wrong) }
		clock := &adapters.Clock{Pool: pool, Log: slog.New(slog.DiscardHandler), Own: own}
		if off := time.Until(clock.Now()) - wrong; off.Abs() > time.Minute {
			t.Errorf("before a look: off by %s", off)
		}
		for range 2 {
			must.OK(t, clock.Look(t.Context()))
			off := time.Until(clock.Now())
			assert.True(t, off.Abs() <= time.Minute, "%s wrong: off by %s after a look", wrong, off)
		}
	}
}

// Deliveries planned by a clock that was a day ahead are brought forward when a worker looks, and are sent.
func TestWorkerBringsBackWhatLiesAhead(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	id := s.schedule()
	for moved := int64(0); moved == 0; {
		done := must.Get(s.pool.Exec(t.Context(), `UPDATE deliveries.due
			SET due_at = due_at + interval '1 day', available_at = available_at + interval '1 day',
				decided_at = decided_at + interval '1 day'`))(t)
		moved = done.RowsAffected()
	}
	mine, _ := s.queue(0)
	s.claims(mine, id)
}
