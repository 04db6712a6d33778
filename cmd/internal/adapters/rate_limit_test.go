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
	"carillon/projections/projecttest"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func limiter(t *testing.T) (*adapters.Limiter, *time.Time) {
	t.Helper()
	t.Parallel()
	pool, now := projecttest.Pool(t), noon
	return &adapters.Limiter{
		Pool:   pool,
		Bucket: "probe",
		Limit:  3,
		Window: time.Minute,
		Now:    func() time.Time { return now },
	}, &now
}

func TestRateLimitAndItsEnd(t *testing.T) {
	l, now := limiter(t)
	org, other := uuid.New(), uuid.New()
	for range 3 {
		if err := l.Take(t.Context(), org); err != nil {
			t.Fatal(err)
		}
		*now = now.Add(5 * time.Second)
	}
	var refusal *command.Refusal
	if err := l.Take(t.Context(), org); !errors.As(err, &refusal) || refusal.Kind != command.RateLimited ||
		refusal.RetryAfter != 45*time.Second {
		t.Fatalf("error = %v (%+v), want a refusal for 45 s", err, refusal)
	}
	if err := l.Take(t.Context(), other); err != nil {
		t.Errorf("another organization: %v", err)
	}
	*now = noon.Add(time.Minute)
	if err := l.Take(t.Context(), org); err != nil {
		t.Errorf("after the window: %v", err)
	}
}

func TestManyAtOnceShareOneLimit(t *testing.T) {
	l, _ := limiter(t)
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
	l, _ := limiter(t)
	l.Pool.Close()
	if err := l.Take(t.Context(), uuid.New()); !errors.Is(err, command.ErrUnavailable) {
		t.Errorf("error = %v, want unavailable", err)
	}
}
