package app

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/audit"
)

// startListening lets other processes say which of this one's consumers they wait for, which destinations rest, how
// much room their deliverers have, and what is new for programs that listen.
func (a *App) startListening(s *stage) {
	if a.cfg.Is(config.RoleDeliver) || a.cfg.Is(config.RoleAPI) {
		s.run(func(ctx context.Context) error { a.relay.Follow(ctx); return nil })
	}
	if a.cfg.Is(config.RoleDeliver) || a.cfg.Is(config.RoleDispatch) {
		s.run(func(ctx context.Context) error { a.deliverers.Listen(ctx); return nil })
	}
	if a.cfg.Is(config.RoleDeliver) || slices.ContainsFunc(consumers(), func(c consumer) bool {
		return a.cfg.Is(c.role)
	}) {
		s.run(func(ctx context.Context) error { a.Progress.Listen(ctx, a.base.locks); return nil })
	}
}

// startReadModels writes the read models. One that meets an event it can't decode stops alone: the others continue, and
// readiness and metrics report it.
func (a *App) startReadModels(s *stage) {
	if !a.cfg.Is(config.RoleProject) {
		return
	}
	for _, m := range ReadModels() {
		s.run(func(ctx context.Context) error { return a.stopAlone(a.runner.Project(ctx, m)) })
	}
	s.run(func(ctx context.Context) error {
		a.verifications.daily(ctx, audit.ReadModel, time.NewTicker(verifyLook).C)
		return nil
	})
}

// startProcessManagers runs those that belong to the process's roles.
func (a *App) startProcessManagers(s *stage) {
	with := reactions{
		store:     a.base.store,
		tombstone: a.base.tombstone,
		commands:  a.Commands,
		log:       a.log,
		holdings:  a.holdings,
		policy:    a.healthPolicy(),
		handoff:   a.deliverers,

		keepHappenings: a.cfg.RetainHappenings,
	}
	if a.tracing != nil {
		with.tracer = a.tracing
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
		a.deliverer.Look = cmp.Or(a.Look, a.deliverer.Look)
		projecting.run(func(ctx context.Context) error { a.queue.StayAlive(ctx, a.log); return nil })
		projecting.run(func(ctx context.Context) error {
			projections.ListenDue(ctx, a.base.locks, a.deliverer.Due)
			return nil
		})
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
