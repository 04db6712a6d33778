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
	"carillon/projections/destinations"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

// TestHostileClockThatWasAhead: a clock that was a day ahead for a moment, and was put right, locks no organization out
// for a day; and a clock that jumps ahead gives none more than the bucket holds.
func TestHostileClockThatWasAhead(t *testing.T) {
	t.Parallel()
	const perSecond = 5
	pool := projecttest.Pool(t)
	org := uuid.New()
	// each has nothing taken ahead
	node := func() *adapters.RequestRate { return &adapters.RequestRate{Pool: pool, Now: time.Now} }
	passes := func() bool {
		t.Helper()
		wait, err := node().Take(t.Context(), org, perSecond)
		if err != nil {
			t.Fatal(err)
		}
		return wait == 0
	}
	for passes() { // until the bucket is empty
	}
	for jump, by := range map[string]string{
		"Postgres' clock was put back": "+ interval '1 day'",
		"and ahead":                    "- interval '1 day'",
	} {
		if _, err := pool.Exec(t.Context(), "UPDATE carillon.request_tokens SET left_over = 0, at = clock_timestamp() "+
			by); err != nil {
			t.Fatal(err)
		}
		passed := passes()
		var held float64
		var now bool
		const bucket = "SELECT left_over + granted, at BETWEEN clock_timestamp() - interval '10 minutes' " +
			"AND clock_timestamp() FROM carillon.request_tokens"
		if err := pool.QueryRow(t.Context(), bucket).Scan(&held, &now); err != nil || !now {
			t.Errorf("%s: the bucket does not fill from now on, %v", jump, err)
		}
		if ahead := by[0] == '-'; passed != ahead || held > perSecond {
			t.Errorf("%s: a request passes: %t; the bucket had %v, want %v at most", jump, passed, held, perSecond)
		}
	}
}

// TestHostileWindowInTheFuture: counts by a node whose clock was ahead limit no organization for longer than a window,
// and clocks that differ by seconds give none more.
func TestHostileWindowInTheFuture(t *testing.T) {
	l, now := limiter(t)
	org := uuid.New()
	right := *now
	for _, ahead := range []time.Duration{24 * time.Hour, 2 * time.Minute} {
		*now = right.Add(ahead)
		for range l.Limit {
			if err := l.Take(t.Context(), org); err != nil {
				t.Fatal(err)
			}
		}
		*now = right
		for range l.Limit {
			if err := l.Take(t.Context(), org); err != nil {
				t.Fatalf("a window that begins in %s holds: %v", ahead, err)
			}
		}
		*now = right.Add(-30 * time.Second) // another node's
		var refusal *command.Refusal
		if err := l.Take(t.Context(), org); !errors.As(err, &refusal) || refusal.RetryAfter != 90*time.Second {
			t.Errorf("a clock that is 30 s behind: %v", err)
		}
	}
}

// TestHostileClaimInTheFuture: an unsettled claim, made by a clock that was ahead, expires like any other.
func TestHostileClaimInTheFuture(t *testing.T) {
	t.Parallel()
	pool := projecttest.Pool(t, organizations.ReadModel, destinations.ReadModel)
	quotas := &adapters.Quotas{Pool: pool, Now: time.Now, Log: slog.New(slog.DiscardHandler)}
	org := uuid.New()
	claim := func(n int) error {
		return quotas.Claim(t.Context(), org, organization.LimitDestinations, uuid.New(), n)
	}
	all := organization.Defaults()[organization.LimitDestinations]
	if err := claim(all); err != nil {
		t.Fatal(err)
	}
	var reached *organization.LimitError
	if err := claim(1); !errors.As(err, &reached) {
		t.Fatalf("one too many: %v", err)
	}
	if _, err := pool.Exec(t.Context(), "UPDATE carillon.quota_claims SET claimed_at = now() + interval "+
		"'1 day'"); err != nil {
		t.Fatal(err)
	}
	if err := claim(1); err != nil {
		t.Errorf("a claim of tomorrow counts: %v", err)
	}
}
