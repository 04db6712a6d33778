package projections_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Readers count while the read model is rebuilt again and again and grows: no count is less than the one before.
// Each count is one statement: Postgres takes its snapshot after it has resolved the names. In an older snapshot
// the new tables lack rows; how lists of several statements stand that shows TestListDuringRebuildIsOfOneSide.
func TestRebuild_totalNeverFalls(t *testing.T) {
	w := newWorld(t)
	progress, _ := w.project(tally)
	stream := eventstore.StreamName("thing", uuid.New())
	w.await(progress, w.append(stream, eventstore.NoStream, "thing.happened.v1"), tally.Name)
	ctx, stop := context.WithCancel(w.ctx)
	var running sync.WaitGroup
	// during one rebuild: on a busy machine more would take longer than all that is there
	growth := make(chan struct{}, 100)
	running.Go(func() {
		for range growth {
			at := w.append(eventstore.StreamName("thing", uuid.New()), eventstore.NoStream, "thing.happened.v1")
			_ = progress.Await(ctx, at, tally.Name) // so that rebuilds catch up
		}
	})
	for range 2 {
		running.Go(func() {
			for last := 0; ctx.Err() == nil; {
				n := 0
				//nolint:contextcheck // the one of the test: a statement in progress is not cut off
				err := w.pool.QueryRow(w.ctx, "SELECT sum(n) FROM tally.counts").Scan(&n)
				if err != nil || n < last {
					t.Errorf("total = %d after %d, %v", n, last, err)
				}
				last = max(last, n)
			}
		})
	}
	runner := w.runner(w.store, progress)
	for range 10 {
		for len(growth) < cap(growth) {
			growth <- struct{}{}
		}
		if err := runner.Rebuild(w.ctx, tally, nil); err != nil {
			t.Errorf("rebuild: %v", err)
		}
	}
	close(growth)
	stop()
	running.Wait()
}
