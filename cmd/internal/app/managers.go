package app

import (
	"context"
	"errors"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/facts"
	"carillon/command/egress"
	"carillon/command/retire"
	"carillon/command/treeheads"
	"carillon/projections/sessionlock"
)

// managers react to events, and do by themselves what no request asks for.
type managers struct {
	*part
	stores     *stores
	readModels *readModels
	webhooks   *webhooks
	commands   *command.Commands
	seal       *treeheads.Hourly
	retirement *retire.Retirer // nil if this process retires nothing
}

func newManagers(w *webhooks, commands *command.Commands) (*managers, error) {
	m := &managers{
		part:       w.newPart(),
		stores:     w.readModels.stores,
		readModels: w.readModels,
		webhooks:   w,
		commands:   commands,
	}
	if err := m.connectSeal(); err != nil {
		return nil, err
	}
	if m.cfg.Is(config.RoleDispatch) {
		if m.retirement = m.retirer(); m.retirement != nil {
			m.Metrics.MustRegister(scraped(m.readRetirement))
		}
	}
	return m, nil
}

// newCommands makes the use cases.
func newCommands(w *webhooks) (*command.Commands, error) {
	s, m := w.readModels.stores, w.readModels
	types, err := catalog.New()
	if err != nil {
		return nil, err
	}
	return &command.Commands{
		Store:   s.store,
		Now:     s.clock.Now,
		Vault:   w.vault,
		Guard:   egress.Guard{Policy: w.policy},
		Prober:  facts.Prober{Facts: w.facts, Sender: w.sender},
		Catalog: types,
		Access:  m.queries,
		Walks:   m.queries,
		Quotas: &adapters.Quotas{
			Pool:    s.pool,
			Locks:   s.locks,
			Log:     s.log,
			Refused: s.refused,
		},
		History: adapters.History{Queries: m.queries, Runner: m.runner},
		Backlog: adapters.Backlog{Queries: m.queries, Runner: m.runner},

		Retain:              s.cfg.RetainDeliveries,
		RetainHappenings:    s.cfg.RetainHappenings,
		OrganizationSources: bool(s.cfg.OrgSources) || s.cfg.Dev,
	}, nil
}

// start runs the process managers of the process's roles. It seals in the processes with the read models, and sends
// heads elsewhere from each that signs them.
func (m *managers) start() {
	for _, manager := range processManagers(m.reactions()) {
		if m.cfg.Is(manager.role) {
			m.run("process managers", func(ctx context.Context) error {
				return stopAlone(m.readModels.runner.React(ctx, manager.fresh))
			})
		}
	}
	if m.cfg.Is(config.RoleDispatch) {
		m.run("addresses", m.sealAddresses)
		m.run("operator webhook", m.setOperatorWebhook)
	}
	if m.cfg.Is(config.RoleProject) {
		m.run("seal", m.seal.Run)
	}
	if m.seal.Outbox != nil {
		m.run("tree heads", m.seal.Outbox.Run)
	}
	if m.retirement != nil {
		m.run("retirement", m.retirement.Run)
	}
}

func (m *managers) reactions() reactions {
	with := reactions{
		store:     m.stores.store,
		seal:      m.seal.Cover,
		tombstone: m.stores.tombstone,
		commands:  m.commands,
		log:       m.log,
		holdings:  m.webhooks.holdings,
		policy:    m.healthPolicy(),
		handoff:   m.webhooks.deliverers,

		keepHappenings: m.cfg.RetainHappenings,
	}
	if m.tracing != nil {
		with.tracer = m.tracing
	}
	return with
}

// healthPolicy returns when a destination that fails is disabled.
func (p *process) healthPolicy() autodisable.Policy {
	return autodisable.Policy{After: p.cfg.AutoDisableAfter, MinStreak: p.cfg.AutoDisableMinStreak}
}

// lockFor returns a function that takes a lock of one process, and fails with held if another one has it.
func (m *managers) lockFor(key sessionlock.Key, held error) func(context.Context) (release func(), err error) {
	return func(ctx context.Context) (func(), error) {
		lock, err := m.stores.locks.TryAcquire(ctx, key)
		switch {
		case errors.Is(err, sessionlock.ErrHeld):
			return nil, held
		case err != nil:
			return nil, err
		}
		return lock.Release, nil
	}
}
