package app

import (
	"context"
	"errors"

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
		Lock:    a.lockSeal,
		Log:     a.log,
		Started: a.clock.Now(),
	}
	if to := a.cfg.SealTo.Reveal(); to != "" {
		a.seal.Outbox = treeheads.NewOutbox(&treeheads.Target{
			To:        to,
			Transport: egress.NewTransport(with.policy, egress.Options{RootCAs: with.roots, From: a.cfg.EgressAddr}),
		}, a.log)
	}
	a.Metrics.MustRegister(sealCollector{a.seal})
	return nil
}

func (a *App) lockSeal(ctx context.Context) (release func(), err error) {
	lock, err := a.base.locks.TryAcquire(ctx, sealLock)
	switch {
	case errors.Is(err, sessionlock.ErrHeld):
		return nil, treeheads.ErrSealing
	case err != nil:
		return nil, err
	}
	return lock.Release, nil
}

// startSealing seals in the processes with the read models, and sends heads elsewhere from each that signs them.
func (a *App) startSealing(working *stage) {
	if a.cfg.Is(config.RoleProject) {
		working.run(a.seal.Run)
	}
	if a.seal.Outbox != nil {
		working.run(a.seal.Outbox.Run)
	}
}

// sealCollector shows how far the log is sealed.
type sealCollector struct{ seal *treeheads.Hourly }

var (
	sealAge = prometheus.NewDesc("carillon_seal_age_seconds",
		"Time since the log was last known to be covered by a tree head: one was signed, or nothing was new. Without "+
			"a head, time since the start.", nil, nil)
	sealEvents = prometheus.NewDesc("carillon_seal_events",
		"Events that the last tree head of the log covers. Absent if there is none.", nil, nil)
	sealWaiting = prometheus.NewDesc("carillon_seal_heads_waiting",
		"Tree heads that this process signed and could not send elsewhere (CARILLON_SEAL_TO) yet.", nil, nil)
)

// Describe implements prometheus.Collector.
func (sealCollector) Describe(descriptions chan<- *prometheus.Desc) {
	descriptions <- sealAge
	descriptions <- sealEvents
	descriptions <- sealWaiting
}

// Collect implements prometheus.Collector.
func (c sealCollector) Collect(metrics chan<- prometheus.Metric) {
	gauge := func(desc *prometheus.Desc, value float64) {
		metrics <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value)
	}
	waiting := 0
	if c.seal.Outbox != nil {
		waiting, _ = c.seal.Outbox.Waiting()
	}
	gauge(sealWaiting, float64(waiting))
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	age, last := c.seal.Age(ctx)
	gauge(sealAge, age.Seconds())
	if last != nil {
		gauge(sealEvents, float64(last.Size))
	}
}
