package app

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/eventstore"
	"carillon/eventstore/tail"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/query"
)

// readModels are the read models with the queries over them, and what compares them with the log.
type readModels struct {
	*part
	stores        *stores
	runner        *projections.Runner
	progress      *projections.Progress
	queries       *query.Queries
	proven        *adapters.Proven
	lags          *lags
	vacancies     *vacancies
	verifications *verifications
	rebuilds      *rebuilds
}

func newReadModels(s *stores) *readModels {
	progress := projections.NewProgress(s.pool)
	m := &readModels{
		part:      s.newPart(),
		stores:    s,
		progress:  progress,
		queries:   &query.Queries{Pool: s.pool, WithoutRelevance: !bool(s.cfg.Relevance)},
		lags:      newLags(s.store, time.Now),
		vacancies: newVacancies(s.pool, s.log, time.Now, progress.Failing),
	}
	m.runner = &projections.Runner{
		Pool:     s.pool,
		Locks:    s.locks,
		Store:    tail.New(s.store, s.log),
		Log:      s.log,
		Progress: m.progress,
		Identity: s.store.Identity,
		Reach:    s.storeReach,
	}
	m.queries.AwaitPublished = adapters.History{Runner: m.runner}.AwaitPublished
	m.proven = adapters.NewProven(&query.Queries{Pool: s.keyPool}, m.watched(), m.progress.Await, s.clock.Now, s.log)
	m.verifications = &verifications{
		runner:   m.runner,
		statuses: m.statuses,
		now:      s.clock.Now,
		log:      s.log,
		proven:   m.proven,
	}
	m.rebuilds = newRebuilds(m)
	s.Metrics.MustRegister(scraped(m.readCheckpoints), scraped(m.readInstallation),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "carillon_credentials_forged_total",
			Help: "Uses and comparisons of credentials whose row in Postgres is not what the log says; they are refused.",
		}, func() float64 { return float64(m.proven.Forged()) }))
	return m
}

// follows reports whether this process follows what is recorded.
func (m *readModels) follows() bool {
	ours := func(c consumer) bool { return m.cfg.Is(c.role) }
	return m.cfg.Is(config.RoleDeliver) || slices.ContainsFunc(consumers(), ours)
}

// watched is the store as a watch reads it that wants few events: by the shared subscription, if there is one.
func (m *readModels) watched() eventstore.Store {
	if m.follows() {
		return m.runner.Store
	}
	return m.stores.store
}

// start watches all consumers, and runs the read models if they are a role of this process. One that meets an event it
// can't decode stops alone: the others continue, and readiness and metrics report it.
func (m *readModels) start() {
	m.keep("vacancies", m.vacancies.watch)
	m.keep("changes of credentials", m.proven.Watch)
	if m.follows() {
		m.keep("progress", func(ctx context.Context) { m.progress.Listen(ctx, m.stores.locks) })
	}
	if !m.cfg.Is(config.RoleProject) {
		return
	}
	for _, model := range ReadModels() {
		m.run(model.Name, func(ctx context.Context) error { return stopAlone(m.runner.Project(ctx, model)) })
	}
	m.keep("analysts", func(ctx context.Context) {
		analytics.Watch(ctx, m.stores.pool, m.log, time.NewTicker(vacancyPoll).C)
	})
	for _, name := range slices.DeleteFunc(Compared(), func(name string) bool { return !comparedDaily(name) }) {
		m.keep("verification of "+name, func(ctx context.Context) {
			m.verifications.daily(ctx, name, time.NewTicker(verifyLook).C)
		})
	}
	m.keep("credentials", func(ctx context.Context) {
		m.verifications.credentials(ctx, time.NewTicker(proofEvery).C)
	})
}

// statuses asks Postgres how far each consumer is, unless it is known to be away.
func (m *readModels) statuses(ctx context.Context) ([]projections.Status, error) {
	if err := m.stores.databaseReach.Err(); err != nil {
		return nil, err
	}
	return statuses(ctx, m.stores.pool)
}

// statuses returns the status of each consumer, an empty one if no process has run it yet.
func statuses(ctx context.Context, pool *pgxpool.Pool) ([]projections.Status, error) {
	all, err := projections.Statuses(ctx, pool)
	for _, c := range consumers() {
		if err == nil && !slices.ContainsFunc(all, func(s projections.Status) bool { return s.Name == c.name }) {
			all = append(all, projections.Status{Name: c.name})
		}
	}
	return all, err
}

// stopAlone drops the error of a consumer that met an event it can't decode, so that only this consumer stops. The
// runner has logged it, and readiness and metrics show it.
func stopAlone(err error) error {
	if errors.Is(err, eventstore.ErrUndecodable) {
		return nil
	}
	return err
}
