package app

import (
	"context"
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/command/delivery"
	"carillon/eventstore"
)

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
		holdings: adapters.Holdings{Store: a.base.store, Progress: a.Progress, Queries: a.Queries, Vault: a.Commands.Vault},
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
		projecting.run(func(ctx context.Context) error { a.queue.StayAlive(ctx, a.log); return nil })
		working.run(a.deliverer.Run)
	}
}

// stopAlone keeps a consumer's undecodable event from stopping the process; the runner has said it loudly.
func (a *App) stopAlone(err error) error {
	if errors.Is(err, eventstore.ErrUndecodable) {
		return nil
	}
	return err
}

// deliveryMetrics registers the metrics of delivery and returns the function that counts an attempt.
func (a *App) deliveryMetrics() func(delivery.Attempt) {
	attempts := prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "carillon_delivery_attempt_seconds", Help: "Delivery attempts by outcome and trigger.",
		Buckets: []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30},
	}, []string{"outcome", "trigger"})
	queued := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_queued", Help: "Deliveries that wait in this process.",
	}, func() float64 { n, _ := a.deliverer.Load(); return float64(n) })
	running := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "carillon_delivery_in_flight", Help: "Requests of this process that are under way.",
	}, func() float64 { _, n := a.deliverer.Load(); return float64(n) })
	a.Metrics.MustRegister(attempts, queued, running)
	return func(at delivery.Attempt) {
		outcome := at.FailureReason
		if outcome == "" {
			outcome = "succeeded"
		}
		attempts.WithLabelValues(outcome, string(at.Trigger)).Observe(at.Duration.Seconds())
	}
}
