package adapters_test

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/eventstore/storetest/must"
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
	if err := l.Take(t.Context(), other); err != nil {
		t.Errorf("another organization: %v", err)
	}
	begun(t, l, -time.Minute)
	if err := l.Take(t.Context(), org); err != nil {
		t.Errorf("after the window: %v", err)
	}
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
	if allowed.Load() != 3 {
		t.Errorf("%d were allowed, want 3", allowed.Load())
	}
}

func TestUnavailableCounters(t *testing.T) {
	l := limiter(t)
	l.Pool.Close()
	if err := l.Take(t.Context(), uuid.New()); !errors.Is(err, command.ErrUnavailable) {
		t.Errorf("error = %v, want unavailable", err)
	}
}
