package app

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/command/egress"
	"carillon/command/treeheads"
	"carillon/projections/sessionlock"
)

// sealLock is held by the process that seals.
const sealLock sessionlock.Key = 0x5ea1_1095

// connectSeal makes what seals the log.
func (m *managers) connectSeal() error {
	key, err := m.cfg.SealSigner()
	if err != nil {
		return err
	}
	m.seal = &treeheads.Hourly{
		Sealer:  &treeheads.Sealer{Store: m.stores.store, Key: key, Now: m.stores.clock.Now},
		Lock:    m.lockFor(sealLock, treeheads.ErrSealing),
		Log:     m.log,
		Started: m.stores.clock.Now(),
	}
	if to := m.cfg.SealTo.Reveal(); to != "" {
		m.seal.Outbox = treeheads.NewOutbox(&treeheads.Target{
			To:        to,
			Transport: egress.NewTransport(m.webhooks.policy, egress.Options{RootCAs: m.webhooks.roots, From: m.cfg.EgressAddr}),
		}, m.log)
	}
	m.Metrics.MustRegister(scraped(m.readSeal))
	return nil
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
func (m *managers) readSeal(ctx context.Context, to scrape) {
	waiting := 0
	if m.seal.Outbox != nil {
		waiting, _ = m.seal.Outbox.Waiting()
	}
	to.gauge(sealWaiting, float64(waiting))
	age, last := m.seal.Age(ctx)
	to.gauge(sealAge, age.Seconds())
	if last != nil {
		to.gauge(sealEvents, float64(last.Size))
	}
}
