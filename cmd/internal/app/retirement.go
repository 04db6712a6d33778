package app

import (
	"context"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/retirement"
	"carillon/cmd/internal/config"
	"carillon/command/delivery"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections/deliveries"
	"carillon/projections/health"
	"carillon/projections/publications"
	"carillon/projections/sessionlock"
	"carillon/query"
)

const (
	// retireLock is held by the process that retires.
	retireLock sessionlock.Key = 0x5e71_4ed0
	// retirePatience limits the wait for read models and deleted streams. The next turn goes on after it.
	retirePatience = 10 * time.Minute
)

// retirer makes what retires deliveries; nil if they are kept forever.
func (a *App) retirer() *retire.Retirer {
	if a.cfg.RetainDeliveries == 0 {
		return nil
	}
	await := func(ctx context.Context, at eventstore.Position, names ...string) error {
		ctx, cancel := context.WithTimeout(ctx, retirePatience)
		defer cancel()
		if !a.Progress.Await(ctx, at, names...) {
			return context.Cause(ctx)
		}
		return nil
	}
	return &retire.Retirer{
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
		Keep:     a.cfg.RetainDeliveries,
		Now:      a.clock.Now,
		Log:      a.log,
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

// startRetiring retires deliveries in the processes that make them.
func (a *App) startRetiring(working *stage) {
	if retirer := a.retirer(); retirer != nil && a.cfg.Is(config.RoleDispatch) {
		working.run(retirer.Run)
	}
}
