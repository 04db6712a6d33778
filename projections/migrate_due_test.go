package projections_test

import (
	"slices"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/projections"
	"carillon/projections/deliveries"
)

// Deliveries that the version before has made into rows get the indexes by time as they are: they are not built anew.
func TestDeliveriesGetTheirIndexesByTimeAsTheyAre(t *testing.T) {
	w := newWorld(t)
	if err := projections.EnsureSchema(w.ctx, w.pool, deliveries.ReadModel); err != nil {
		t.Fatal(err)
	}
	form := func() (fingerprint string, indexes []string) {
		t.Helper()
		err := w.pool.QueryRow(w.ctx, "SELECT fingerprint FROM carillon.checkpoints WHERE name = 'deliveries'").Scan(&fingerprint)
		if err != nil {
			t.Fatal(err)
		}
		rows, err := w.pool.Query(w.ctx, "SELECT indexdef FROM pg_indexes WHERE schemaname = 'deliveries' ORDER BY indexname")
		if err == nil {
			indexes, err = pgx.CollectRows(rows, pgx.RowTo[string])
		}
		if err != nil {
			t.Fatal(err)
		}
		return fingerprint, indexes
	}
	made, indexes := form()
	w.downTo(26)
	if older, fewer := form(); older == made || len(fewer) != len(indexes)-2 {
		t.Fatalf("the version before is %s with %d indexes, this one %s with %d", older, len(fewer), made, len(indexes))
	}
	for range 2 { // a second process comes along
		if err := projections.Migrate(w.ctx, w.pool); err != nil {
			t.Fatal(err)
		}
	}
	if now, all := form(); now != made || !slices.Equal(all, indexes) {
		t.Errorf("the rows are of version %s with the indexes %q, want %s with %q", now, all, made, indexes)
	}
}
