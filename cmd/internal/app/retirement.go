package app

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/retirement"
	"carillon/cmd/internal/config"
	"carillon/command/curate"
	"carillon/command/delivery"
	"carillon/command/irreversible"
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
		Due:  dueShare(a.Queries.OldestShare),
		Pass: a.gate.Pass,
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
		Lock:     a.lockFor(retireLock, retire.ErrRetiring),
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

// dueShare returns the share that a query counts.
func dueShare(
	count func(ctx context.Context, before time.Time) (due, of int, err error),
) irreversible.Due {
	return func(ctx context.Context, before time.Time) (share irreversible.Share, err error) {
		share.Due, share.Of, err = count(ctx, before)
		return share, err
	}
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
		Due:   dueShare(a.Queries.EndedShare),
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

// lockFor returns a function that takes a lock of one process, and fails with held if another one has it.
func (a *App) lockFor(key sessionlock.Key, held error) func(context.Context) (release func(), err error) {
	return func(ctx context.Context) (func(), error) {
		lock, err := a.base.locks.TryAcquire(ctx, key)
		switch {
		case errors.Is(err, sessionlock.ErrHeld):
			return nil, held
		case err != nil:
			return nil, err
		}
		return lock.Release, nil
	}
}

// connectRetirement makes what retires deliveries in the processes that dispatch them.
func (a *App) connectRetirement() {
	if !a.cfg.Is(config.RoleDispatch) {
		return
	}
	if a.retirement = a.retirer(); a.retirement != nil {
		a.Metrics.MustRegister(scraped(a.readRetirement))
	}
}

func (a *App) startRetiring(working *stage) {
	if a.retirement != nil {
		working.run("retirement", a.retirement.Run)
	}
}

var (
	retirementAge = prometheus.NewDesc("carillon_retirement_age_seconds",
		"Time since the last turn of this process that retired what was over without an error. Before that, time since "+
			"the start.", nil, nil)
	retirementOverdue = prometheus.NewDesc("carillon_retirement_overdue_seconds",
		"Time by which the oldest published event exceeds CARILLON_RETAIN_DELIVERIES; 0 if none does. Events with "+
			"deliveries that wait are among them.", nil, nil)
	retirementPostponed = prometheus.NewDesc("carillon_retirement_postponed",
		"Kinds of what is over (events, collected events) of which more than a tenth was due in the last turn, so that they "+
			"wait for a day.", nil, nil)
	retiredEvents = prometheus.NewDesc("carillon_retired_events_total",
		"Published events that this process has retired.", nil, nil)
	retiredDeliveries = prometheus.NewDesc("carillon_retired_deliveries_total",
		"Deliveries that this process has retired.", nil, nil)
	retiredHappenings = prometheus.NewDesc("carillon_retired_happenings_total",
		"Collected events that this process has retired.", nil, nil)
)

// readRetirement reads what this process retires, and whether all leaves in time.
func (a *App) readRetirement(ctx context.Context, to scrape) {
	retired, age := a.retirement.Retired()
	to.gauge(retirementAge, age.Seconds())
	to.gauge(retirementPostponed, float64(a.retirement.Postponed()))
	to.count(retiredEvents, float64(retired.Events))
	to.count(retiredDeliveries, float64(retired.Deliveries))
	to.count(retiredHappenings, float64(retired.Happenings))
	overdue, err := a.retirement.Overdue(ctx)
	if err != nil {
		a.log.Warn("oldest event unavailable", "error", err)
		return
	}
	to.gauge(retirementOverdue, overdue.Seconds())
}
