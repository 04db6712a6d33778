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
	"carillon/projections/analytics"
)

// startListening lets other processes say which of this one's consumers they wait for, which destinations rest, how
// much room their deliverers have, and what is new for programs that listen.
func (a *App) startListening(s *stage) {
	if a.cfg.Is(config.RoleDeliver) || a.cfg.Is(config.RoleAPI) {
		s.keep("relay", a.relay.Follow)
	}
	if a.cfg.Is(config.RoleDeliver) || a.cfg.Is(config.RoleDispatch) || a.cfg.Is(config.RoleAPI) {
		s.keep("capacities", a.deliverers.Listen)
	}
	if a.cfg.Is(config.RoleDeliver) || slices.ContainsFunc(consumers(), func(c consumer) bool {
		return a.cfg.Is(c.role)
	}) {
		s.keep("progress", func(ctx context.Context) { a.Progress.Listen(ctx, a.base.locks) })
	}
}

// startReadModels writes the read models. One that meets an event it can't decode stops alone: the others continue, and
// readiness and metrics report it.
func (a *App) startReadModels(s *stage) {
	if !a.cfg.Is(config.RoleProject) {
		return
	}
	for _, m := range ReadModels() {
		s.run(m.Name, func(ctx context.Context) error { return a.stopAlone(a.runner.Project(ctx, m)) })
	}
	s.keep("analysts", func(ctx context.Context) {
		analytics.Watch(ctx, a.base.pool, a.log, time.NewTicker(vacancyPoll).C)
	})
	for _, name := range slices.DeleteFunc(Compared(), func(name string) bool { return !comparedDaily(name) }) {
		s.keep("verification of "+name, func(ctx context.Context) {
			a.verifications.daily(ctx, name, time.NewTicker(verifyLook).C)
		})
	}
	s.keep("credentials", func(ctx context.Context) {
		a.verifications.credentials(ctx, time.NewTicker(proofEvery).C)
	})
}

// startProcessManagers runs those that belong to the process's roles.
func (a *App) startProcessManagers(s *stage) {
	with := reactions{
		store:     a.base.store,
		seal:      a.seal.Cover,
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
			s.run("process managers", func(ctx context.Context) error { return a.stopAlone(a.runner.React(ctx, m.fresh)) })
		}
	}
}

// startDelivery runs the workers.
func (a *App) startDelivery(working, projecting *stage) {
	if a.cfg.Is(config.RoleDeliver) {
		a.queue.OnRest(a.deliverer.Wake)
		a.deliverer.Look = cmp.Or(a.Look, a.deliverer.Look)
		projecting.keep("worker lock", func(ctx context.Context) { a.queue.StayAlive(ctx, a.log) })
		projecting.keep("due deliveries", func(ctx context.Context) {
			projections.ListenDue(ctx, a.base.locks, a.deliverer.Due)
		})
		working.run("deliverer", a.deliverer.Run)
		working.keep("expiries", a.expiries.watch)
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
