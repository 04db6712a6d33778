package adapters_test

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/eventstore/storetest/must"
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

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
	if err := claim(1); !errors.As(err, &reached) {
		t.Fatalf("one too many: %v", err)
	}
	must.Get(pool.Exec(t.Context(), "UPDATE carillon.quota_claims SET claimed_at = now() + interval "+
		"'1 day'"))(t)
	if err := claim(1); err != nil {
		t.Errorf("a claim of tomorrow counts: %v", err)
	}
}
