package app

import (
	"context"
	"errors"
	"slices"

	"carillon/cmd/internal/config"
	"carillon/command/delivery"
	"carillon/eventstore"
)

// startListening lets other processes say which of this one's consumers they wait for, and which destinations rest.
func (a *App) startListening(s *stage) {
	if a.cfg.Is(config.RoleDeliver) || slices.ContainsFunc(consumers(), func(c consumer) bool { return a.cfg.Is(c.role) }) {
		s.run(func(ctx context.Context) error { a.Progress.Listen(ctx, a.base.locks); return nil })
	}
}

// startReadModels writes the read models. One that meets an event it can't decode stops alone: the others go on, and
// readiness and metrics say so.
func (a *App) startReadModels(s *stage) {
	if !a.cfg.Is(config.RoleProject) {
		return
	}
	for _, m := range ReadModels() {
		s.run(func(ctx context.Context) error { return a.stopAlone(a.runner.Project(ctx, m)) })
	}
}

// startProcessManagers runs those that belong to the process's roles.
func (a *App) startProcessManagers(s *stage) {
	with := reactions{
		store: a.base.store, commands: a.Commands, log: a.log,
		holdings: a.holdings,
		policy:   delivery.HealthPolicy{After: a.cfg.AutoDisableAfter, MinStreak: a.cfg.AutoDisableMinStreak},
	}
	if a.cfg.Is(config.RoleDeliver) {
		with.handoff = a.deliverer
	}
	for _, m := range processManagers(with) {
		if a.cfg.Is(m.role) {
			s.run(func(ctx context.Context) error { return a.stopAlone(a.runner.React(ctx, m.fresh)) })
		}
	}
}

// startDelivery runs the workers.
func (a *App) startDelivery(working, projecting *stage) {
	if a.cfg.Is(config.RoleDeliver) {
		a.queue.OnRest(a.deliverer.Wake)
		projecting.run(func(ctx context.Context) error { a.queue.StayAlive(ctx, a.log); return nil })
		working.run(a.deliverer.Run)
		working.run(func(ctx context.Context) error { a.expiries.watch(ctx); return nil })
	}
}

// stopAlone drops the error of a consumer that met an event it can't decode, so that only this consumer stops. The
// runner has logged it, and readiness and metrics show it.
func (a *App) stopAlone(err error) error {
	if errors.Is(err, eventstore.ErrUndecodable) {
		return nil
	}
	return err
}
