package deliveries_test

import (
	"encoding/json"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/projections/deliveries"
)

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
	tx, err := h.Database.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = tx.Rollback(t.Context()) }()
	exec := func(statement string, arguments ...any) {
		t.Helper()
		arguments = append([]any{pgx.QueryExecModeSimpleProtocol}, arguments...)
		if _, err := tx.Exec(t.Context(), statement, arguments...); err != nil {
			t.Fatal(err)
		}
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
		err := tx.QueryRow(t.Context(), "EXPLAIN (ANALYZE, TIMING OFF, FORMAT JSON) EXECUTE take_back ('{1}', now())",
			pgx.QueryExecModeSimpleProtocol).Scan(&text)
		if err != nil {
			t.Fatal(err)
		}
		var found []struct{ Plan plan }
		if err := json.Unmarshal(text, &found); err != nil {
			t.Fatal(err)
		}
		if n := found[0].Plan.looked(); n < 400 || n > 2000 {
			t.Errorf("%s it looks at %v rows to free 400:\n%s", when, n, text)
		}
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
