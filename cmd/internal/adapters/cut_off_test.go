package adapters_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"carillon/aggregates/happening"
	"carillon/command/collect"
	"carillon/eventstore"
)

// cutting holds the observations after n happenings, until the visit is cut off.
type cutting struct {
	eventstore.Store

	after   int64
	told    atomic.Int64
	reached chan struct{}
}

func (c *cutting) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if strings.HasPrefix(stream, happening.Aggregate.Category+"-") {
		switch n := c.told.Add(1); {
		case n == c.after+1:
			close(c.reached)
			fallthrough
		case n > c.after:
			<-ctx.Done()
			return eventstore.Appended{}, context.Cause(ctx)
		}
	}
	return c.Store.Append(ctx, stream, expected, events)
}

// A page is recorded before its observations are compared. Cut off between the two, at its first happening or at a
// later one, the next visit records the rest, and does not read the page again. The same holds for happenings that the
// page no longer shows.
func TestVisit_cutOffBeforeComparison(t *testing.T) {
	t.Parallel()
	const many = 300 // more than are compared at one time
	for _, after := range []int64{0, 1, many - 10} {
		t.Run(fmt.Sprint(after), func(t *testing.T) {
			t.Parallel()
			l := &leaflets{}
			l.set("a", concert("gone"))
			w, source := l.open(t)
			w.expectWalk(source, "observed")
			w.stop()
			var programme leaflet
			for i := range many {
				programme.tells = append(programme.tells, tells(fmt.Sprintf("url:example.org/%d", i), fmt.Sprint("No ", i),
					happening.FromOwnPage, nil))
			}
			l.set("a", programme)
			cut := &cutting{Store: w.store, after: after, reached: make(chan struct{})}
			stop := w.monitor(cut, map[string]collect.Collector{"facebook": l})
			w.collect(source)
			<-cut.reached
			stop()
			if got := len(w.recorded("happening.observed.v1")); got > many {
				t.Errorf("all are recorded: %d", got)
			}
			w.monitor(w.store, map[string]collect.Collector{"facebook": l})
			w.eventuallyState(source, 2, "ok")
			if got := len(w.recorded("happening.observed.v1")); got != many+1 {
				t.Errorf("%d are observed, want %d", got, many+1)
			}
			if got := w.happened(); len(got) != many+2 || !slices.Contains(got, "went-stale") {
				t.Errorf("it came to %q", got)
			}
			w.expectWalk(source, "")
			l.mu.Lock()
			defer l.mu.Unlock()
			if got := slices.DeleteFunc(slices.Clone(l.asked), func(a string) bool { return a != "a" }); len(got) != 3 {
				t.Errorf("the page was asked for %d times, want once a walk", len(got))
			}
		})
	}
}
