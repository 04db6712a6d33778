package deliveries_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/destination"
	"carillon/aggregates/dispatch"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/projecttest"
)

// However many destinations have something that waits for its time, a look and a claim read what is due.
func TestClaim_costDependsOnDue(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	h.due(1, to(alpha))
	h.Project()
	const waiting = 3000
	h.wait(waiting)
	// One session: its statistics are reported once it is idle.
	config := h.Database.Config()
	config.MaxConns = 1
	pool := must.Get(pgxpool.NewWithConfig(t.Context(), config))(t)
	defer pool.Close()
	entries := func() (n int) {
		t.Helper()
		must.Get(pool.Exec(t.Context(), "SELECT pg_stat_force_next_flush()"))(t)
		must.OK(t, pool.QueryRow(t.Context(),
			"SELECT sum(idx_tup_read) FROM pg_stat_user_indexes WHERE schemaname IN ('deliveries', 'destinations')").Scan(&n))
		return n
	}
	before := entries()
	seen := must.Get(deliveries.Look(t.Context(), pool, &pgx.Batch{}, noon))(t)
	ask := deliveries.Ask{PerDestination: 10, Limit: 10}
	claimed := must.Get(deliveries.NewClaimer(pool, me).Claim(t.Context(), ask, lease, seen))(t)
	must.Equal(t, len(claimed), 1, "claimed")
	next := nextDue(t, pool, noon.Add(lease))
	must.True(t, next.Equal(noon.Add(time.Hour)), "the next is due at %v, want the first waiting one", next)
	if n := entries() - before; n > waiting/10 {
		t.Errorf("%d entries of indexes were read for one delivery that was due, beside %d destinations with a waiting one",
			n, waiting)
	}
}

// Deliveries that have been due for long get their turn, however many newer unclaimed ones are due: more than a look
// sees.
func TestClaim_behindManyUnclaimed(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	full, disabled := uuid.New(), uuid.New()
	for _, id := range []uuid.UUID{alpha, full, disabled} {
		h.destination(id)
	}
	projecttest.Stream(h.Log, destination.Aggregate, disabled, noon)(destination.Disabled{At: noon})
	for n := range 3 {
		h.due(n, to(alpha))
	}
	h.Project()
	h.fill(full, 1500)
	h.fill(disabled, 1500)
	h.wait(1500) // more than are visited at one time
	now := noon.Add(time.Minute)
	claimer, ask := deliveries.NewClaimer(h.Database, me), deliveries.Ask{
		PerDestination: 1,
		Limit:          10,
		Full:           []uuid.UUID{full},
	}
	got := map[uuid.UUID]int{}
	must.Eventually(t, "all three are claimed", func() bool {
		seen := must.Get(deliveries.Look(t.Context(), h.Database, &pgx.Batch{}, now))(t)
		claimed := must.Get(claimer.Claim(t.Context(), ask, lease, seen))(t)
		for _, c := range claimed {
			if got[c.ID]++; c.Destination != alpha || got[c.ID] > 1 {
				t.Fatalf("claimed %s of %s", c.ID, c.Destination)
			}
		}
		return len(got) == 3
	})
	must.Equal(t, len(must.Get(claimer.Claim(t.Context(), ask, lease, deliveries.Seen{}))(t)), 0,
		"claimed … ), but nothing is due")
}

// Where more is due than a look sees, all destinations still come to their turn while the newest deliveries are those
// of one of them.
func TestMuchThatIsDueIsClaimedOfAll(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	others := map[uuid.UUID]bool{}
	h.publish(0)
	var fanOut []dispatch.Scheduled
	for range 20 {
		id := uuid.New()
		h.destination(id)
		others[id] = true
		fanOut = append(fanOut, to(id))
	}
	h.destination(alpha)
	h.schedule(0, noon, fanOut...)
	h.Project()
	h.fill(alpha, 3000)
	claimer, ask := deliveries.NewClaimer(h.Database, me), deliveries.Ask{PerDestination: 10, Limit: 10}
	must.Eventually(t, "each destination had its turn", func() bool {
		seen := must.Get(deliveries.Look(t.Context(), h.Database, &pgx.Batch{}, noon.Add(time.Minute)))(t)
		claimed, err := claimer.Claim(t.Context(), ask, lease, seen)
		must.True(t, err == nil && len(claimed) != 0, "claimed %d (%v) where much is due", len(claimed), err)
		for _, c := range claimed {
			delete(others, c.Destination)
		}
		return len(others) == 0
	})
}

// fill makes deliveries of the event 0 that are due a second after noon, and nothing else of them.
func (h history) fill(destination uuid.UUID, size int) {
	h.t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO deliveries.deliveries (id, organization, destination, created_at, revision, attempts,
			automatic, event_id, event_time,
				status, type, source, subscriptions)
			SELECT md5($1::uuid::text || n)::uuid, '11111111-1111-4111-8111-111111111111', $1, '2026-11-21 12:00Z', -1, 0, 0, $2,
			'2026-11-21 12:00Z',
				'pending', 'news.item.added', 'https://example.org/feeds/city', '{}' FROM generate_series(1, %d) n`, size),
		fmt.Sprintf(`INSERT INTO deliveries.due SELECT md5($1::uuid::text || n)::uuid, $1, '2026-11-21 12:00:01Z',
			'2026-11-21 12:00:01Z'
			FROM generate_series(1, %d) n WHERE $2::uuid IS NOT NULL`, size),
	} {
		_, err := h.Database.Exec(h.t.Context(), sql, destination, event(0))
		must.True(h.t, err == nil, "%v: %s", err, sql)
	}
}

// nextDue is when something more is due after a moment; zero: nothing is planned.
func nextDue(t *testing.T, pool *pgxpool.Pool, now time.Time) time.Time {
	t.Helper()
	seen := must.Get(deliveries.Look(t.Context(), pool, &pgx.Batch{}, now))(t)
	return seen.Next
}

// Many that wait for a disabled destination cost a wake-up for each hundred, and hide nothing behind them.
func TestNextDueBehindManyThatAreDisabled(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	disabled := uuid.New()
	h.destination(disabled)
	projecttest.Stream(h.Log, destination.Aggregate, disabled, noon)(destination.Disabled{At: noon})
	h.Project()
	h.wait(250)
	must.Get(h.Database.Exec(t.Context(),
		"UPDATE deliveries.due SET destination = $1 WHERE available_at < $2", disabled,
		noon.Add(time.Hour+249*time.Second)))(t)
	var wakes []time.Duration
	for now := noon; ; {
		next := nextDue(t, h.Database, now)
		if next.IsZero() {
			break
		}
		wakes, now = append(wakes, next.Sub(noon)-time.Hour), next
	}
	want := []time.Duration{99 * time.Second, 199 * time.Second, 249 * time.Second}
	assert.True(t, slices.Equal(wakes, want), "something is due %v after the first, want %v", wakes, want)
}

// wait makes destinations that have a delivery waiting each, the first of them an hour after noon.
func (h history) wait(destinations int) {
	h.t.Helper()
	for _, sql := range []string{
		fmt.Sprintf(`INSERT INTO destinations.destinations (id, organization, name, shown_url, settings,
			status, created_at, updated_at, revision)
			SELECT md5('waits ' || n)::uuid, '11111111-1111-4111-8111-111111111111', 'CRM', 'https://example.org/hook', '{}',
			'enabled', now(), now(), 0
			FROM generate_series(1, %d) n`, destinations),
		fmt.Sprintf(`INSERT INTO deliveries.due SELECT md5('waiting ' || n)::uuid, md5('waits ' || n)::uuid, at, at
			FROM generate_series(1, %d) n, LATERAL (SELECT '2026-11-21 12:59:59Z'::timestamptz + n * interval '1 s' AS at)
			times`, destinations),
		"VACUUM ANALYZE deliveries.due, destinations.destinations",
	} {
		_, err := h.Database.Exec(h.t.Context(), sql)
		must.True(h.t, err == nil, "%v: %s", err, sql)
	}
}
