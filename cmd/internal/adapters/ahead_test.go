package adapters_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/httpapi/apitest"
	"carillon/eventstore/storetest/must"
)

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
	apitest.Eventually(t, "Postgres is asked", func() (asked bool) {
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
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a request that has gone: %v", err)
		}
	case <-time.After(patience / 4):
		t.Fatal("a request that has gone waits for Postgres")
	}
	must.OK(t, slow.Rollback(t.Context()))
	for range many {
		if err := <-answers; err != nil {
			t.Error(err)
		}
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
		if _, err := writes.Take(t.Context(), uuid.UUID{1}); (err != nil) != c.asks {
			t.Errorf("after %s: %v; asks %v", c.at, err, c.asks)
		}
	}
}
