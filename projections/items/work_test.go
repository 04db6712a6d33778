package items

import (
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/item"
)

// Within a batch, a removed item stays away when its happening changes, and comes back when it is added again.
func TestWorkFollowsRemovals(t *testing.T) {
	t.Parallel()
	id, feed, of, at := uuid.New(), uuid.New(), uuid.New(), time.Unix(1_700_000_000, 0)
	added := fact{id: id, event: item.Added{FeedID: feed, HappeningID: of, At: at}}
	w := newWork()
	expect := func(what string, dirty, removed bool) {
		t.Helper()
		_, isDirty := w.dirty[id]
		_, isRemoved := w.removed[id]
		if isDirty != dirty || isRemoved != removed {
			t.Errorf("%s: rendered %v, removed %v; want %v, %v", what, isDirty, isRemoved, dirty, removed)
		}
	}
	w.apply(added)
	expect("added", true, false)
	w.apply(fact{id: id, event: item.Removed{FeedID: feed, HappeningID: of, At: at}})
	expect("removed", false, true)
	w.apply(fact{id: of, event: happening.WentStale{SourceID: uuid.New(), At: at}})
	expect("changed afterwards", false, true)
	w.apply(added)
	expect("added again", true, false)
}
