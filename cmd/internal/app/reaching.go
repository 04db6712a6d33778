package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/eventstore/reach"
)

// watchReach makes the watches over the event store and over Postgres, with their metrics. That over Postgres asks for
// the time, which the process's clock follows. Work under locks runs while the event store is reached; a lock is lost
// with its Postgres session, without a watch.
func (a *App) watchReach() {
	store := a.base.store
	a.storeReach = &reach.Watch{
		Name: "event store",
		Ask: func(ctx context.Context) error {
			_, err := store.Head(ctx)
			return err
		},
		Log: a.log,
	}
	if server := a.base.server; server != nil {
		a.storeReach.Heard, a.storeReach.Lost = server.Heard, server.Reconnect
	}
	a.databaseReach = &reach.Watch{Name: "Postgres", Ask: a.clock.Look, Log: a.log}
	a.Metrics.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "carillon_eventstore_reachable",
			Help: "0 while this process has had no answer from the event store for 5 seconds or more, else 1.",
		}, func() float64 { return oneIf(a.storeReach.Err() == nil) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "carillon_postgres_reachable",
			Help: "0 while this process has had no answer from Postgres for 5 seconds or more, else 1.",
		}, func() float64 { return oneIf(a.databaseReach.Err() == nil) }))
}

// startWatching runs the watches.
func (a *App) startWatching(s *stage) {
	for _, w := range []*reach.Watch{a.storeReach, a.databaseReach} {
		s.keep("reach of "+w.Name, w.Run)
	}
}
