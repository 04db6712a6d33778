package adapters_test

import (
	"log/slog"
	"testing"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

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
			if off := time.Until(clock.Now()); off.Abs() > time.Minute {
				t.Errorf("%s wrong: off by %s after a look", wrong, off)
			}
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
