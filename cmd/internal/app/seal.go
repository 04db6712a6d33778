package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/config"
	"carillon/command/egress"
	"carillon/command/treeheads"
	"carillon/projections/sessionlock"
)

// sealLock is held by the process that seals.
const sealLock sessionlock.Key = 0x5ea1_1095

// connectSeal makes what seals the log.
func (a *App) connectSeal(with sending) error {
	key, err := a.cfg.SealSigner()
	if err != nil {
		return err
	}
	a.seal = &treeheads.Hourly{
		Sealer:  &treeheads.Sealer{Store: a.base.store, Key: key, Now: a.clock.Now},
		Lock:    a.lockFor(sealLock, treeheads.ErrSealing),
		Log:     a.log,
		Started: a.clock.Now(),
	}
	if to := a.cfg.SealTo.Reveal(); to != "" {
		a.seal.Outbox = treeheads.NewOutbox(&treeheads.Target{
			To:        to,
			Transport: egress.NewTransport(with.policy, egress.Options{RootCAs: with.roots, From: a.cfg.EgressAddr}),
		}, a.log)
	}
	a.Metrics.MustRegister(scraped(a.readSeal))
	return nil
}

// startSealing seals in the processes with the read models, and sends heads elsewhere from each that signs them.
func (a *App) startSealing(working *stage) {
	if a.cfg.Is(config.RoleProject) {
		working.run("seal", a.seal.Run)
	}
	if a.seal.Outbox != nil {
		working.run("tree heads", a.seal.Outbox.Run)
	}
}

var (
	sealAge = prometheus.NewDesc("carillon_seal_age_seconds",
		"Time since the log was last known to be covered by a tree head: one was signed, or nothing was new. Without "+
			"a head, time since the start.", nil, nil)
	sealEvents = prometheus.NewDesc("carillon_seal_events",
		"Events that the last tree head of the log covers. Absent if there is none.", nil, nil)
	sealWaiting = prometheus.NewDesc("carillon_seal_heads_waiting",
		"Tree heads that this process signed and could not send elsewhere (CARILLON_SEAL_TO) yet.", nil, nil)
)

// readSeal reads how far the log is sealed.
func (a *App) readSeal(ctx context.Context, to scrape) {
	waiting := 0
	if a.seal.Outbox != nil {
		waiting, _ = a.seal.Outbox.Waiting()
	}
	to.gauge(sealWaiting, float64(waiting))
	age, last := a.seal.Age(ctx)
	to.gauge(sealAge, age.Seconds())
	if last != nil {
		to.gauge(sealEvents, float64(last.Size))
	}
}
