package app

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/retirement"
	"carillon/cmd/internal/config"
	"carillon/command/curate"
	"carillon/command/delivery"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/items"
	"carillon/projections/publications"
	"carillon/projections/sessionlock"
	"carillon/projections/sources"
	"carillon/query"
)

// retireLock is held by the process that retires.
const retireLock sessionlock.Key = 0x5e71_4ed0

// retirer returns nil if all is kept forever.
func (a *App) retirer() *retire.Retirer {
	if a.cfg.RetainDeliveries == 0 && a.cfg.RetainHappenings == 0 {
		return nil
	}
	await := func(ctx context.Context, at eventstore.Position, names ...string) error {
		if !a.Progress.Await(ctx, at, names...) {
			return context.Cause(ctx)
		}
		return nil
	}
	retirer := &retire.Retirer{
		Store: a.base.store,
		Oldest: func(ctx context.Context, before time.Time, after retire.Published, limit int) (
			page []retire.Published, revision eventstore.Revision, err error,
		) {
			rows, applied, err := a.Queries.Oldest(ctx, before, query.PublishedAt(after), limit)
			for _, row := range rows {
				page = append(page, retire.Published(row))
			}
			return page, eventstore.Revision(applied), err
		},
		Health: func(ctx context.Context, destinations []uuid.UUID) (map[uuid.UUID]retirement.Health, error) {
			rows, err := a.Queries.HealthOf(ctx, destinations)
			all := make(map[uuid.UUID]retirement.Health, len(rows))
			for id, row := range rows {
				all[id] = retirement.Health(row)
			}
			return all, err
		},
		Await: func(ctx context.Context, at eventstore.Position) error {
			return await(ctx, at, publications.ReadModel.Name, deliveries.ReadModel.Name, health.ReadModel.Name)
		},
		Dispatched: func(ctx context.Context) eventstore.Position {
			return a.Progress.Stored(ctx, delivery.DispatcherName)
		},
		Removed:  func(ctx context.Context, at eventstore.Position) error { return await(ctx, at, retire.RemoverName) },
		Scavenge: a.base.scavenge,
		Lock:     a.lockRetirement,
		Reached:  a.storeReach.While,
		Keep:     a.cfg.RetainDeliveries,
		Now:      a.clock.Now,
		Log:      a.log,
		Started:  a.clock.Now(),
	}
	if a.cfg.RetainHappenings > 0 {
		retirer.Happenings = a.happenings(await)
	}
	return retirer
}

// happenings makes what retires happenings.
func (a *App) happenings(
	await func(ctx context.Context, at eventstore.Position, names ...string) error,
) *retire.Happenings {
	return &retire.Happenings{
		Store: a.base.store,
		Oldest: func(ctx context.Context, before time.Time, after retire.Ended, limit int) (
			page []retire.Ended, revision eventstore.Revision, err error,
		) {
			rows, applied, err := a.Queries.Ended(ctx, before, query.EndedAt(after), limit)
			for _, row := range rows {
				page = append(page, retire.Ended(row))
			}
			return page, eventstore.Revision(applied), err
		},
		Feeds: a.Queries.FeedsOf,
		Backfills: func(ctx context.Context, of []retire.Filled) (all []retire.Backfilled, err error) {
			feeds, by := make([]uuid.UUID, len(of)), make([]uuid.UUID, len(of))
			for i, f := range of {
				feeds[i], by[i] = f.Feed, f.Source
			}
			rows, err := a.Queries.Backfills(ctx, feeds, by)
			for _, row := range rows {
				all = append(all, retire.Backfilled{
					Filled:     retire.Filled{Feed: row.Feed, Source: row.Source},
					AttachedAt: row.AttachedAt,
					Added:      row.Added,
				})
			}
			return all, err
		},
		Await: func(ctx context.Context, at eventstore.Position) error {
			return await(ctx, at, items.ReadModel.Name, sources.ReadModel.Name)
		},
		Curated: func(ctx context.Context) eventstore.Position {
			return a.Progress.Stored(ctx, curate.FeedCurationName)
		},
		Keep: a.cfg.RetainHappenings,
		Now:  a.clock.Now,
		Log:  a.log,
	}
}

func (a *App) lockRetirement(ctx context.Context) (release func(), err error) {
	lock, err := a.base.locks.TryAcquire(ctx, retireLock)
	switch {
	case errors.Is(err, sessionlock.ErrHeld):
		return nil, retire.ErrRetiring
	case err != nil:
		return nil, err
	}
	return lock.Release, nil
}

// connectRetirement makes what retires deliveries in the processes that dispatch them.
func (a *App) connectRetirement() {
	if !a.cfg.Is(config.RoleDispatch) {
		return
	}
	if a.retirement = a.retirer(); a.retirement != nil {
		a.Metrics.MustRegister(retirementCollector{a.retirement, a.log})
	}
}

func (a *App) startRetiring(working *stage) {
	if a.retirement != nil {
		working.run(a.retirement.Run)
	}
}

// retirementCollector shows what this process retires, and whether all leaves in time.
type retirementCollector struct {
	retirer *retire.Retirer
	log     *slog.Logger
}

var (
	retirementAge = prometheus.NewDesc("carillon_retirement_age_seconds",
		"Time since the last turn of this process that retired what was over without an error. Before that, time since "+
			"the start.", nil, nil)
	retirementOverdue = prometheus.NewDesc("carillon_retirement_overdue_seconds",
		"Time by which the oldest published event exceeds CARILLON_RETAIN_DELIVERIES; 0 if none does. Events with "+
			"deliveries that wait are among them.", nil, nil)
	retiredEvents = prometheus.NewDesc("carillon_retired_events_total",
		"Published events that this process has retired.", nil, nil)
	retiredDeliveries = prometheus.NewDesc("carillon_retired_deliveries_total",
		"Deliveries that this process has retired.", nil, nil)
	retiredHappenings = prometheus.NewDesc("carillon_retired_happenings_total",
		"Collected events that this process has retired.", nil, nil)
)

// Describe implements prometheus.Collector.
func (retirementCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- retirementAge
	descriptions <- retirementOverdue
	descriptions <- retiredEvents
	descriptions <- retiredDeliveries
	descriptions <- retiredHappenings
}

// Collect implements prometheus.Collector.
func (c retirementCollector) Collect(metrics chan<- prometheus.Metric) {
	report := func(desc *prometheus.Desc, kind prometheus.ValueType, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, kind, value)
	}
	retired, age := c.retirer.Retired()
	report(retirementAge, prometheus.GaugeValue, age.Seconds())
	report(retiredEvents, prometheus.CounterValue, float64(retired.Events))
	report(retiredDeliveries, prometheus.CounterValue, float64(retired.Deliveries))
	report(retiredHappenings, prometheus.CounterValue, float64(retired.Happenings))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	overdue, err := c.retirer.Overdue(ctx)
	if err != nil {
		c.log.Warn("oldest event unavailable", "error", err)
		return
	}
	report(retirementOverdue, prometheus.GaugeValue, overdue.Seconds())
}
