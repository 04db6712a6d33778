package adapters_test

import (
	"context"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/command/collect"
	"carillon/command/visiting"
	"carillon/eventstore"
	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/must"
	"carillon/projections/deliveries"
)

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
	if _, sure := cutOff.Holding(); sure {
		t.Error("it still holds its lock")
	}
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
	w.eventually("a visit has begun", func() bool {
		held.mu.Lock()
		defer held.mu.Unlock()
		return held.visits > 0
	})
	// A turn ends by itself after a minute, this one later.
	w.exec("UPDATE carillon.source_walks SET held_until = held_until + interval '1 day'")
	way.cut.Store(true)
	w.eventually("it leaves its turn", func() bool {
		var free bool
		const left = "SELECT held_until <= clock_timestamp() FROM carillon.source_walks WHERE source_id = $1"
		must.OK(t, w.pool.QueryRow(t.Context(), left, source).Scan(&free))
		return free
	})
	w.monitor(w.store, map[string]collect.Collector{"facebook": free})
	w.eventuallyState(source, 1, "ok")
}
