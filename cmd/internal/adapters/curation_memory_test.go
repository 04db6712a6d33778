package adapters_test

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/feed"
	"carillon/cmd/internal/adapters"
	"carillon/command/curate"
	"carillon/command/curate/curatetest"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/processtest"
	"carillon/projections"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

// idle is a curation that runs, and lends its memory in place of reacting.
type idle struct {
	adapters.FeedCuration

	runs chan<- adapters.FeedCuration
}

// React implements eventstore.ProcessManager.
func (i idle) React(ctx context.Context, _ []eventstore.Recorded) error {
	i.runs <- i.FeedCuration
	<-ctx.Done()
	return nil
}

func TestCurationsMemoryKeepsTheContract(t *testing.T) {
	t.Parallel()
	curatetest.Run(t, func(t *testing.T) (curate.Memory, curate.Likeness) {
		t.Helper()
		pool, store, log := projecttest.Pool(t), nodetest.Start(t), slog.New(slog.DiscardHandler)
		runner := &projections.Runner{
			Pool:     pool,
			Locks:    pgtest.Locks(t, pool),
			Store:    store,
			Log:      log,
			Progress: projections.NewProgress(pool),
		}
		runs := make(chan adapters.FeedCuration, 1)
		run(t, func(ctx context.Context) error {
			return runner.React(ctx, func(tables *projections.Tables) eventstore.ProcessManager {
				return idle{adapters.NewFeedCuration(tables, store, nil, 0, log).SmallPages(), runs}
			})
		})
		processtest.Record(t, store, feed.Aggregate, uuid.New(), feed.Event(feed.Created{At: time.Now()}))
		return (<-runs).Memory()
	})
}
