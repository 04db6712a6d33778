package app

import (
	"context"
	"iter"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/organization"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/organizations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

func TestLagIsTheAgeOfTheOldestEventThatIsWaiting(t *testing.T) {
	t.Parallel()
	pool, store := projecttest.Pool(t), nodetest.Start(t)
	counted := &counting{Store: store}
	var later atomic.Int64
	l := newLags(counted, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	runner := &projections.Runner{
		Pool:     pool,
		Locks:    pgtest.Locks(t, pool),
		Store:    store,
		Log:      slog.New(slog.DiscardHandler),
		Progress: projections.NewProgress(pool),
	}
	register := func() eventstore.Position {
		t.Helper()
		done := must.Get(organization.Aggregate.Execute(t.Context(), store, uuid.New(),
			organization.Register{Name: "Town hall", At: time.Now()}, organization.Options{}))(t)
		return done.Position
	}
	takeIn := func(to eventstore.Position) {
		t.Helper()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		ran := make(chan error, 1)
		go func() { ran <- runner.Project(ctx, organizations.ReadModel) }()
		assert.Equal(t, runner.Progress.Await(ctx, to, organizations.ReadModel.Name), true,
			"the read model does not get there")
		cancel()
		if err := <-ran; err != nil {
			t.Error(err)
		}
	}
	lag := func() time.Duration {
		t.Helper()
		statuses, err := projections.Statuses(t.Context(), pool)
		must.True(t, err == nil && len(statuses) == 1, "statuses: %+v, %v", statuses, err)
		head := must.Get(store.Head(t.Context()))(t)
		found := must.Get(l.of(t.Context(), statuses[0], head))(t)
		return found
	}
	concernNobody := func() {
		t.Helper()
		for range 100 {
			must.Get(store.Append(t.Context(), "other-"+uuid.NewString(), eventstore.NoStream, []eventstore.Proposed{{
				ID:   uuid.New(),
				Type: "x",
				Data: []byte(`{}`),
			}}))(t)
		}
	}
	takeIn(register())
	assert.Equal(t, lag(), 0, "it has everything, lag")
	concernNobody()
	later.Store(int64(time.Hour))
	assert.Equal(t, lag(), 0, "nothing waits that concerns it, lag")
	before := counted.subscriptions.Load()
	if lag(); counted.subscriptions.Load() != before {
		t.Error("the searched range is searched again")
	}
	register()
	last := register()
	if got := lag(); got < 59*time.Minute || got > 61*time.Minute {
		t.Errorf("an event has waited for an hour, lag = %s", got)
	}
	takeIn(last)
	concernNobody()
	assert.Equal(t, lag(), 0, "it has caught up, lag")
	must.Get(pool.Exec(t.Context(), "UPDATE carillon.checkpoints SET commit = 0, prepare = 0"))(t)
	if got := lag(); got < 59*time.Minute {
		t.Errorf("it begins from nothing, lag = %s", got)
	}
}

// counting counts who subscribes.
type counting struct {
	eventstore.Store
	subscriptions atomic.Int32
}

// Subscribe implements eventstore.Store.
func (c *counting) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	c.subscriptions.Add(1)
	return c.Store.Subscribe(ctx, after, filter)
}
