package deliveries_test

import (
	"testing"
	"time"

	"carillon/query"
)

// A rebuild takes the place of the tables while a list waits for them: the total is that of the new ones, and not one of
// the moment before, at which the rows of the new ones were not there yet.
func TestATotalDoesNotFallWhenARebuildTakesOver(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.publish(1)
	h.schedule(1, noon, to(alpha))
	h.Project()
	ctx := t.Context()
	swap, err := h.pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = swap.Rollback(ctx) }()
	for _, statement := range []string{
		"CREATE TABLE deliveries.built (LIKE deliveries.tallies INCLUDING ALL)",
		"INSERT INTO deliveries.built SELECT * FROM deliveries.tallies",
		"DROP TABLE deliveries.tallies",
		"ALTER TABLE deliveries.built RENAME TO tallies",
	} {
		if _, err := swap.Exec(ctx, statement); err != nil {
			t.Fatal(err)
		}
	}
	type answer struct {
		total int
		err   error
	}
	answered := make(chan answer, 1)
	go func() {
		_, total, err := (&query.Queries{Pool: h.pool}).Deliveries(ctx, org, alpha, query.DeliveryFilter{Limit: 10}, noon)
		answered <- answer{total, err}
	}()
	for waits, deadline := false, time.Now().Add(2*time.Minute); !waits; {
		if time.Now().After(deadline) {
			t.Fatal("the list does not wait for the tables")
		}
		err := h.pool.QueryRow(ctx, `SELECT EXISTS (SELECT FROM pg_stat_activity
			WHERE datname = current_database() AND wait_event_type = 'Lock')`).Scan(&waits)
		if err != nil {
			t.Fatal(err)
		}
		<-time.After(5 * time.Millisecond)
	}
	if err := swap.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if got := <-answered; got.err != nil || got.total != 1 {
		t.Errorf("total %d (%v), want 1 as before", got.total, got.err)
	}
}
