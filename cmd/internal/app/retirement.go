package app

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/command/curate"
	"carillon/command/delivery/dispatching"
	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/items"
	"carillon/projections/publications"
	"carillon/projections/sessionlock"
	"carillon/projections/sources"
)

// retireLock is held by the process that retires.
const retireLock sessionlock.Key = 0x5e71_4ed0

// retirer returns nil if all is kept forever.
func (m *managers) retirer() *retire.Retirer {
	if m.cfg.RetainDeliveries == 0 && m.cfg.RetainHappenings == 0 {
		return nil
	}
	retirer := &retire.Retirer{
		Store:  m.stores.store,
		Oldest: m.readModels.queries.Oldest,
		Due:    dueShare(m.readModels.queries.OldestShare),
		Pass:   m.stores.gate.Pass,
		Health: m.readModels.queries.HealthOf,
		Await:  m.applied(publications.ReadModel.Name, deliveries.ReadModel.Name, health.ReadModel.Name),
		Dispatched: func(ctx context.Context) eventstore.Position {
			return m.readModels.progress.Stored(ctx, dispatching.Name)
		},
		Removed:  m.applied(retire.RemoverName),
		Scavenge: m.stores.scavenge,
		Lock:     m.lockFor(retireLock, retire.ErrRetiring),
		Reached:  m.stores.storeReach.While,
		Keep:     m.cfg.RetainDeliveries,
		Now:      m.stores.clock.Now,
		Log:      m.log,
		Started:  m.stores.clock.Now(),
	}
	if m.cfg.RetainHappenings > 0 {
		retirer.Happenings = m.happenings()
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

// applied returns a function that waits until consumers have applied the event at a position.
func (m *managers) applied(names ...string) func(context.Context, eventstore.Position) error {
	return func(ctx context.Context, at eventstore.Position) error {
		if !m.readModels.progress.Await(ctx, at, names...) {
			return context.Cause(ctx)
		}
		return nil
	}
}

// happenings makes what retires happenings.
func (m *managers) happenings() *retire.Happenings {
	return &retire.Happenings{
		Store:     m.stores.store,
		Oldest:    m.readModels.queries.Ended,
		Due:       dueShare(m.readModels.queries.EndedShare),
		Feeds:     m.readModels.queries.FeedsOf,
		Backfills: m.readModels.queries.Backfills,
		Await:     m.applied(items.ReadModel.Name, sources.ReadModel.Name),
		Curated: func(ctx context.Context) eventstore.Position {
			return m.readModels.progress.Stored(ctx, curate.FeedCurationName)
		},
		Keep: m.cfg.RetainHappenings,
		Now:  m.stores.clock.Now,
		Log:  m.log,
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
func (m *managers) readRetirement(ctx context.Context, to scrape) {
	retired, age := m.retirement.Retired()
	to.gauge(retirementAge, age.Seconds())
	to.gauge(retirementPostponed, float64(m.retirement.Postponed()))
	to.count(retiredEvents, float64(retired.Events))
	to.count(retiredDeliveries, float64(retired.Deliveries))
	to.count(retiredHappenings, float64(retired.Happenings))
	overdue, err := m.retirement.Overdue(ctx)
	if err != nil {
		m.log.Warn("oldest event unavailable", "error", err)
		return
	}
	to.gauge(retirementOverdue, overdue.Seconds())
}
