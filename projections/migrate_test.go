package projections_test

import (
	"strings"
	"testing"

	"carillon/projections"
)

// A database that has all steps from before the first schema keeps its tables; one that lacks some is refused.
func TestMigrate_earlierSteps(t *testing.T) {
	w := newWorld(t)
	if _, err := w.pool.Exec(w.ctx, "INSERT INTO carillon.rate_limits VALUES (gen_random_uuid(), 'checks', "+
		"now(), 7)"); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a second process comes along
		if err := projections.Migrate(w.ctx, w.pool); err != nil {
			t.Fatal(err)
		}
	}
	var kept int
	if err := w.pool.QueryRow(w.ctx, "SELECT count(*) FROM carillon.rate_limits WHERE count = 7").
		Scan(&kept); err != nil || kept != 1 {
		t.Errorf("%d rows are left, %v", kept, err)
	}
	if _, err := w.pool.Exec(w.ctx, "UPDATE carillon.migrations SET version_id = 29 WHERE version_id >= 30"); err != nil {
		t.Fatal(err)
	}
	if err := projections.Migrate(w.ctx, w.pool); err == nil || !strings.Contains(err.Error(), "step 29 of 30") {
		t.Errorf("error = %v, want it to name the step", err)
	}
}
