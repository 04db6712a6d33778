package adapters_test

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/happening"
	"carillon/aggregates/source"
	"carillon/cmd/internal/adapters"
	"carillon/command"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
	"carillon/projections/items"
	"carillon/projections/sources"
	"carillon/query"
)

// place is an outside place whose events the test decides.
type place struct {
	mu     sync.Mutex
	titles []string
	err    error
	visits int
	hold   chan struct{} // visits wait for it where not nil
}

// soon is when everything happens: the same at each visit, also around midnight.
var soon = time.Now().Add(48 * time.Hour).Truncate(time.Hour)

func (p *place) show(titles ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.titles = titles
}

func (p *place) fail(err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.err = err
}

// Start implements collect.Collector.
func (*place) Start(source collect.Source) []collect.Link {
	return []collect.Link{{Address: source.Handle}}
}

// Read implements collect.Collector.
func (p *place) Read(ctx context.Context, source collect.Source, _ collect.Known) (collect.Page, error) {
	p.mu.Lock()
	p.visits++
	hold := p.hold
	p.mu.Unlock()
	if hold != nil {
		select {
		case <-hold:
		case <-ctx.Done():
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	result := collect.Page{Requests: 1}
	for _, title := range p.titles {
		key := "url:https://" + source.Handle + ".example/" + title
		instance := happening.DeriveInstanceID(key, "")
		result.Observations = append(result.Observations, collect.Observation{
			Key: key, Source: happening.Block{Type: source.Type, Publisher: &happening.Publisher{Name: source.Handle}},
			Details: happening.Details{Title: title, Instances: []happening.Instance{{
				ID: instance, Status: happening.Scheduled,
				Occurrences: []happening.Occurrence{{
					ID:     happening.DeriveOccurrenceID(instance, 0),
					Start:  soon,
					Status: happening.Scheduled,
				}},
			}}},
		})
	}
	return result, p.err
}

func (w *world) account() (source uuid.UUID) {
	w.t.Helper()
	return w.source(command.RegisterSource{Type: "facebook", Handle: uuid.NewString()})
}

// backfill is that of a source in the only feed that it fills.
func (w *world) backfill(source uuid.UUID) query.Backfill {
	w.t.Helper()
	listed := w.listed(source)
	must.Equal(w.t, len(listed.Backfills), 1, "backfills of %s: %+v", source, listed.Backfills)
	return listed.Backfills[0]
}

// published counts the events that subscribers hear of.
func (w *world) published() int {
	w.t.Helper()
	return len(w.recorded("publication.event-published.v1"))
}

func (w *world) exec(sql string) {
	w.t.Helper()
	must.Get(w.pool.Exec(w.t.Context(), sql))(w.t)
}

// The first walk after an attachment fails. The next regular one is the backfill, and ends it, also if the process has
// ended and the memory of walks was lost meanwhile.
func TestBackfillOutlastsFailure(t *testing.T) {
	p := &place{}
	p.fail(errors.New("down"))
	collectors := map[string]collect.Collector{"facebook": p}
	w := open(t, collectors)
	source, feed := w.account(), w.feed()
	at := time.Now()
	w.attach(feed, source, "facebook")
	w.eventuallyState(source, 1, "failing")
	if b := w.backfill(source); b.EndedAt != nil || b.Since.Before(at.Add(-time.Second)) || b.Added != 0 {
		t.Errorf("backfill = %+v", b)
	}
	w.stop()
	w.exec("DELETE FROM carillon.source_walks")
	w.exec("UPDATE sources.sources SET due_at = now()") // the time has come
	p.fail(nil)
	p.show("jazz", "quiz")
	w.stop = w.curateAndMonitor(collectors)
	w.eventuallyItems(feed, "jazz", "quiz")
	must.Eventually(t, "the backfill ends", func() bool {
		b := w.backfill(source)
		return b.EndedAt != nil && b.Added == 2
	})
	p.show("jazz", "quiz", "opera")
	w.collect(source)
	w.eventuallyItems(feed, "jazz", "quiz", "opera")
	must.Eventually(w.t, "it is published", func() bool { return w.published() > 0 })
	w.await(w.recorded("item.added.v1")[2].Position, nil, items.ReadModel.Name)
	assert.Equal(t, w.published(), 1, "are published")
}

// way is that of one process to the event store.
type way struct{ cut atomic.Bool }

func (w *way) watch(t *testing.T) *reach.Watch {
	t.Helper()
	ask := func(context.Context) error {
		if w.cut.Load() {
			return eventstore.ErrUnavailable
		}
		return nil
	}
	watch := &reach.Watch{
		Name: "store",
		Beat: 20 * time.Millisecond,
		Log:  slog.New(slog.DiscardHandler),
		Ask:  ask,
	}
	run(t, func(ctx context.Context) error { watch.Run(ctx); return nil })
	return watch
}

// A worker that can't record outcomes gives up its lock: its deliveries go to a worker that can.
func TestCutOffWorkerGivesUpItsLock(t *testing.T) {
	s := newQueueFixture(t)
	s.project(deliveries.ReadModel)
	way, theirs := &way{}, *s.runner
	theirs.Reach = way.watch(t)
	right, _ := s.queue(0)
	right.TakeOverAfter(0)
	cutOff := adapters.NewDeliveryQueue(&theirs, time.Now)
	run(t, func(ctx context.Context) error { cutOff.StayAlive(ctx, slog.New(slog.DiscardHandler)); return nil })
	held := s.schedule()
	s.claims(cutOff, held)
	way.cut.Store(true)
	s.claims(right, held)
	_, sure := cutOff.Holding()
	assert.True(t, !sure, "it still holds its lock")
	way.cut.Store(false)
	s.eventuallyHolds(cutOff, 1)
}

// A visit in a process that is cut off ends and leaves its turn to others.
func TestCutOffMonitorLeavesItsTurns(t *testing.T) {
	held, free := &place{hold: make(chan struct{})}, &place{}
	w := open(t, nil)
	w.stop()
	source, way := w.account(), &way{}
	watch := way.watch(t)
	w.monitor(w.store, map[string]collect.Collector{"facebook": held}, func(m *visiting.Monitor) { m.Reach = watch })
	w.collect(source)
	must.Eventually(w.t, "a visit has begun", func() bool {
		held.mu.Lock()
		defer held.mu.Unlock()
		return held.visits > 0
	})
	// A turn ends by itself after a minute, this one later.
	w.exec("UPDATE carillon.source_walks SET held_until = held_until + interval '1 day'")
	way.cut.Store(true)
	must.Eventually(w.t, "it leaves its turn", func() bool {
		var free bool
		const left = "SELECT held_until <= clock_timestamp() FROM carillon.source_walks WHERE source_id = $1"
		must.OK(t, w.pool.QueryRow(t.Context(), left, source).Scan(&free))
		return free
	})
	w.monitor(w.store, map[string]collect.Collector{"facebook": free})
	w.eventuallyState(source, 1, "ok")
}

// BenchmarkVisitOfAnOldSource visits a source that has 10,000 walks behind it: it takes the turn, records that a walk
// that was asked for begins, walks one page, and records the end. The page has not changed.
func BenchmarkVisitOfAnOldSource(b *testing.B) {
	p := &place{}
	p.show("jazz")
	w := open(b, nil)
	w.stop()
	id := w.source(command.RegisterSource{Type: "facebook", Handle: "old"})
	for first := 1; first <= 10_000; first += 500 {
		var old []eventstore.Proposed
		for number := first; number < first+500; number++ {
			for _, event := range []source.Event{source.CollectionStarted{Number: number}, source.CollectionCompleted{
				Number:          number,
				IntervalSeconds: 900,
			}} {
				name, data, err := source.Events.Encode(event)
				must.OK(b, err)
				old = append(old, eventstore.Proposed{ID: uuid.New(), Type: name, Data: data})
			}
		}
		appended, err := w.store.Append(b.Context(), source.Aggregate.Stream(id), eventstore.Revision(2*(first-1)),
			old) //nolint:gosec // small
		w.await(appended.Position, err, sources.ReadModel.Name)
	}
	w.monitor(w.store, map[string]collect.Collector{"facebook": p})
	var took []time.Duration
	for b.Loop() {
		w.collect(id)
		var visit time.Duration
		must.Eventually(w.t, "the walk is over", func() bool {
			return w.pool.QueryRow(b.Context(), `SELECT w.completed_at - w.attempted_at FROM carillon.source_walks w
				JOIN sources.sources s ON s.id = w.source_id
				WHERE s.id = $1 AND w.holder IS NULL AND NOT w.walking AND s.wanted_at IS NULL
				AND s.state = 'ok'`, id).Scan(&visit) == nil
		})
		took = append(took, visit)
	}
	slices.Sort(took)
	b.ReportMetric(float64(took[len(took)/2].Microseconds())/1000, "ms/visit")
}
