//go:build nightly

package projections_test

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/sessionlock"
)

// A process that is stopped in the middle of a transaction, with its session ended, is replaced at once: its
// transaction is rolled back, and its later writes are refused.
func TestFence_stoppedInATransaction(t *testing.T) {
	w := newWorld(t)
	var once sync.Once
	stopped, goOn := make(chan struct{}), make(chan struct{})
	slow := tally
	slow.Project = func(ctx context.Context, tx pgx.Tx, batch []eventstore.Recorded) error {
		if batch[len(batch)-1].Revision == 1 {
			once.Do(func() { close(stopped); <-goOn })
		}
		return count(ctx, tx, batch)
	}
	_, stream, stop := w.begun(slow)
	at := w.append(stream, 0, "thing.happened.v1")
	<-stopped
	second, _ := w.run(func(ctx context.Context, r *projections.Runner) error { return r.Project(ctx, tally) })
	w.endSessions()
	w.await(second, at, tally.Name)
	close(goOn)
	must.OK(t, stop())
	w.await(second, w.append(stream, 1, "thing.happened.v1"), tally.Name)
	assert.Equal(t, w.count(stream), 3, "count")
	holders, err := sessionlock.Holders(w.ctx, w.pool)
	assert.True(t, err == nil && len(holders) == 1, "holders of locks: %v, %v", holders, err)
}
