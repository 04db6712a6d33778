package deliveries_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"carillon/aggregates/delivery"
	"carillon/aggregates/dispatch"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
)

// A clock was a day ahead, and was put back: deliveries planned meanwhile wait as long as their schedule says, not a
// day, and leases and pauses end when they would have. Deliveries planned by a right clock are not changed.
func TestClockAheadIsBroughtBack(t *testing.T) {
	t.Parallel()
	const ahead = 24 * time.Hour
	h := newHistory(t)
	h.destination(alpha)
	wrong := noon.Add(ahead)
	window := to(alpha)
	window.NotBefore = wrong.Add(time.Minute)
	leased := to(alpha)
	leased.Worker, leased.LeasedUntil = me, wrong.Add(lease)
	for n, d := range []dispatch.Scheduled{to(alpha), to(alpha), window, leased} {
		h.publish(n + 1)
		at := wrong
		if n == 0 {
			at = noon
		}
		h.schedule(n+1, at, d)
	}
	h.happens(1, alpha, failed(1, alpha, noon, noon.Add(10*time.Hour)))
	h.happens(2, alpha, failed(1, alpha, wrong, wrong.Add(5*time.Minute)))
	h.due(5, to(alpha))
	h.happens(5, alpha, gaveUp(1, alpha, noon), replayWanted(alpha, uuid.New(), wrong))
	h.Project()
	due := func(n int) (due, available time.Time) {
		t.Helper()
		must.OK(t, h.Database.QueryRow(t.Context(), "SELECT due_at, available_at FROM deliveries.due WHERE id = $1",
			dispatch.DeliveryID(event(n), alpha)).Scan(&due, &available))
		return due, available
	}
	bring := func(want int64) {
		t.Helper()
		n, err := deliveries.BringBack(t.Context(), h.Database, noon, lease)
		must.True(t, err == nil && n == want, "%d were brought back (%v), want %d", n, err, want)
	}
	bring(4)
	bring(0)
	for n, want := range map[int]struct{ due, available time.Duration }{
		1: {10 * time.Hour, 10 * time.Hour}, 2: {5 * time.Minute, 5 * time.Minute}, 3: {time.Minute, time.Minute},
		4: {0, lease}, 5: {0, 0},
	} {
		if due, available := due(n); !due.Equal(noon.Add(want.due)) || !available.Equal(noon.Add(want.available)) {
			t.Errorf("%d is due at %s and available at %s, want noon and %+v", n, due.UTC(), available.UTC(), want)
		}
	}
	// A pause that was made while the clock was ahead.
	const pause = "UPDATE deliveries.due SET available_at = $2 WHERE id = $1"
	must.Get(h.Database.Exec(t.Context(), pause, dispatch.DeliveryID(event(1), alpha), wrong))(t)
	bring(1)
	if due, available := due(1); !available.Equal(due) {
		t.Errorf("available at %s, due at %s", available, due)
	}
}

// plan is a node of a plan that was run, as EXPLAIN shows it.
type plan struct {
	Node     string  `json:"Node Type"`
	Relation string  `json:"Relation Name"`
	Rows     float64 `json:"Actual Rows"`
	Loops    float64 `json:"Actual Loops"`
	Filtered float64 `json:"Rows Removed by Filter"`
	Unjoined float64 `json:"Rows Removed by Join Filter"`
	Plans    []plan
}

// looked counts the rows that a plan has looked at, and the pairs of rows that it has compared.
func (p plan) looked() float64 {
	sum := p.Unjoined * p.Loops
	if p.Relation != "" {
		sum += (p.Rows + p.Filtered) * p.Loops
	}
	for _, below := range p.Plans {
		sum += below.looked()
	}
	return sum
}

// Leases are taken back by index, also by a plan from the time when the table was small: the statement looks at held
// deliveries, not at those that wait.
func TestTakeBack_plan(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	tx := must.Get(h.Database.Begin(t.Context()))(t)
	defer func() { _ = tx.Rollback(t.Context()) }()
	exec := func(statement string, arguments ...any) {
		t.Helper()
		arguments = append([]any{pgx.QueryExecModeSimpleProtocol}, arguments...)
		must.Get(tx.Exec(t.Context(), statement, arguments...))(t)
	}
	add := func(n int, worker string) {
		t.Helper()
		exec(`INSERT INTO deliveries.due (id, destination, due_at, available_at, worker)
			SELECT gen_random_uuid(), gen_random_uuid(), now(), now(), `+worker+` FROM generate_series(1, $1)`, n)
	}
	look := func(when string) {
		t.Helper()
		add(200, "1")
		add(200, "2")
		var text []byte
		must.OK(t, tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE take_back ('{1}', now())",
			pgx.QueryExecModeSimpleProtocol).Scan(&text))
		var found []struct{ Plan plan }
		must.OK(t, json.Unmarshal(text, &found))
		n := found[0].Plan.looked()
		assert.True(t, n >= 400 && n <= 2000, "%s it looks at %v rows to free 400:\n%s", when, n, text)
	}
	exec(deliveries.PlanByIndex)
	exec("PREPARE take_back (integer[], timestamptz) AS " + deliveries.TakeBackStatement)
	add(5, "NULL")
	exec("ANALYZE deliveries.due")
	exec("EXECUTE take_back ('{1}', now())")
	add(10_000, "NULL")
	look("by a plan from five rows")
	exec("ANALYZE deliveries.due")
	look("by a plan from ten thousand rows")
}

func retryOf(to uuid.UUID, at time.Time) delivery.RetryRequested {
	return delivery.RetryRequested{Organization: org, Destination: to, At: at}
}

// A worker that claimed it meanwhile makes the attempt that was asked for. If it gives it back, the delivery is due.
func TestRetry_leavesLeases(t *testing.T) {
	t.Parallel()
	h := newHistory(t)
	h.destination(alpha)
	held := to(alpha)
	held.Worker, held.LeasedUntil = me, noon.Add(lease)
	for n, d := range []dispatch.Scheduled{held, to(alpha)} {
		h.due(n+1, d)
	}
	h.Project()
	must.Equal(t, len(h.claim(me, 10, 10, noon)), 1, "claimed … want the one that was not handed over")
	now := noon.Add(time.Second)
	h.happens(1, alpha, retryOf(alpha, now))
	h.happens(2, alpha, retryOf(alpha, now))
	h.Project()
	assert.Equal(t, len(h.claim(peer, 10, 10, now)), 0, "held deliveries are claimed again")
	given := dispatch.DeliveryID(event(2), alpha)
	must.OK(t, deliveries.Release(t.Context(), h.Database, me, []uuid.UUID{given}))
	claimed := h.claim(peer, 10, 10, now)
	assert.True(t, len(claimed) == 1 && claimed[0].ID == given && claimed[0].Revision == eventstore.Revision(0),
		"given back: %+v", claimed)
}
