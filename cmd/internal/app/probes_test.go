package app

import (
	"context"
	"errors"
	"iter"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon/aggregates/organization"
	"carillon/eventstore"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/organizations"
	"carillon/projections/projecttest"
)

func TestLagIsTheAgeOfTheOldestEventThatIsWaiting(t *testing.T) {
	t.Parallel()
	pool, store := projecttest.Pool(t), nodetest.Start(t)
	counted := &counting{Store: store}
	var later atomic.Int64
	l := newLags(counted, func() time.Time { return time.Now().Add(time.Duration(later.Load())) })
	runner := projecttest.Runner(t, pool, store)
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
		assert.True(t, runner.Progress.Await(ctx, to, organizations.ReadModel.Name), "the read model does not get there")
		cancel()
		assert.OK(t, <-ran)
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
	counted.damage = errors.New("damaged log")
	_, err := l.of(t.Context(), projections.Status{Name: organizations.ReadModel.Name}, last)
	assert.Is(t, err, counted.damage, "the log can't be read, lag")
}

// counting counts who subscribes.
type counting struct {
	eventstore.Store
	subscriptions atomic.Int32
	damage        error // ends each subscription. Optional.
}

// Subscribe implements eventstore.Store.
func (c *counting) Subscribe(
	ctx context.Context, after eventstore.Position, filter eventstore.Filter,
) iter.Seq2[eventstore.Message, error] {
	c.subscriptions.Add(1)
	if c.damage != nil {
		return func(yield func(eventstore.Message, error) bool) { yield(eventstore.Message{}, c.damage) }
	}
	return c.Store.Subscribe(ctx, after, filter)
}

// All work of a part is started again after a panic, which ends neither the process nor other work. Its error still
// ends the process.
func TestPartSurvivesPanics(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		failed := make(chan error, 1)
		s := (&process{failed: failed}).newPart()
		errOver := errors.New("over")
		runs, keeps := 0, 0
		s.run("test of a run part", func(context.Context) error {
			if runs++; runs == 1 {
				panic("planted")
			}
			return errOver
		})
		s.keep("test of a kept part", func(ctx context.Context) {
			if keeps++; keeps == 1 {
				panic("planted")
			}
			<-ctx.Done()
		})
		err := <-failed
		assert.True(t, errors.Is(err, errOver) && runs == 2, "failed with %v after %d runs", err, runs)
		synctest.Wait()
		stop(s)
		assert.Equal(t, keeps, 2, "the kept part was started … times")
	})
	registry := prometheus.NewRegistry()
	registry.MustRegister(scraped(readPanics), scraped(func(context.Context, scrape) { panic("planted") }))
	for _, part := range []string{"test of a run part", "test of a kept part"} {
		assert.Equal(t, panics.Counts()[part], 1, "%s: counted", part)
	}
	families, err := registry.Gather()
	assert.True(t, err == nil && len(families) == 1 && families[0].GetName() == "carillon_panics_total",
		"gathered %v, %v", families, err)
}

// TestHostileProbesAskOnce: who asks for readiness and metrics without a token makes the stores be asked once a second.
func TestHostileProbesAskOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		took := time.Second / 2
		ready := sharedReady(func(ctx context.Context) map[string]error {
			asked.Add(1)
			select {
			case <-time.After(took): // the clock of the bubble
			case <-ctx.Done():
			}
			return map[string]error{"eventStore": ctx.Err()}
		})
		scrape := sharedScrape(prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
			asked.Add(1)
			time.Sleep(took)
			return nil, nil
		}))
		for range 2 {
			before := asked.Load()
			var all sync.WaitGroup
			for n := range 200 {
				all.Go(func() {
					ctx, cancel := context.WithCancel(t.Context())
					if n == 0 {
						cancel() // who asks first may go away
					}
					defer cancel()
					assert.Is(t, ready(ctx)["eventStore"], nil, "it passes on the error of a caller that went away")
					assert.OK(t, assert.Err(scrape.Gather()))
				})
			}
			all.Wait()
			assert.Equal(t, asked.Load()-before, 2, "200 made the stores be asked … times")
			time.Sleep(2 * time.Second) // a later one gets a new answer
		}
	})
}
