package sources_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
	"carillon/aggregates/retirement"
	"carillon/projections/projecttest"
)

// Whether the events of retired happenings are still in the log or not, the counts are the same.
func TestRetired(t *testing.T) {
	t.Parallel()
	feedID, other := uuid.New(), uuid.New()
	var counts [2][]int
	for i, lost := range []bool{false, true} {
		f := open(t)
		f.attach(feedID, noon)
		for n := range 3 {
			id := uuid.New()
			if lost && n < 2 {
				continue
			}
			projecttest.Stream(f.Log, happening.Aggregate, id, noon)(happening.Observed{SourceID: f.id, At: noon})
			projecttest.Stream(f.Log, item.Aggregate, item.ID(feedID, id), noon)(item.Added{
				FeedID:      feedID,
				HappeningID: id,
				SourceID:    f.id,
				Backfill:    true,
				At:          noon,
			})
			if n == 1 {
				other = id
			}
		}
		projecttest.Stream(f.Log, retirement.Aggregate, retirement.HappeningsLogID, noon)(retirement.HappeningsRetired{
			Batch:      uuid.New(),
			Happenings: []retirement.Happening{{ID: other, In: []int{0}}},
			Feeds:      []uuid.UUID{feedID},
			Shown:      []retirement.Shown{{SourceID: f.id, Happenings: 2}},
			Backfills:  []retirement.Backfill{{SourceID: f.id, AttachedAt: noon, Added: 3}},
			At:         noon,
		})
		f.Project()
		var retired, added, shown int
		if err := f.Pool.QueryRow(t.Context(), `SELECT (SELECT happenings FROM sources.retired WHERE source_id = $1),
			(SELECT added FROM sources.attachments WHERE source_id = $1),
			(SELECT count(*) FROM sources.shown WHERE happening_id = $2)`, f.id, other).
			Scan(&retired, &added, &shown); err != nil {
			t.Fatal(err)
		}
		counts[i] = []int{retired, added, shown}
	}
	if diff := cmp.Diff([2][]int{{2, 3, 0}, {2, 3, 0}}, counts); diff != "" {
		t.Errorf("retired, added, shown (-want +got):\n%s", diff)
	}
}
