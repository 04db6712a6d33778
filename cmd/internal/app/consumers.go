package app

import (
	"context"
	"log/slog"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/command"
	"carillon/command/delivery/autodisable"
	"carillon/command/delivery/cascade"
	"carillon/command/delivery/dispatching"
	"carillon/command/delivery/sending"
	"carillon/command/retire"
	"carillon/eventstore"
	"carillon/projections"
	"carillon/projections/audit"
	"carillon/projections/auditors"
	"carillon/projections/clientcertificates"
	"carillon/projections/deliveries"
	"carillon/projections/destinations"
	"carillon/projections/feeds"
	"carillon/projections/health"
	"carillon/projections/items"
	"carillon/projections/operators"
	"carillon/projections/organizations"
	"carillon/projections/publications"
	"carillon/projections/sources"
	"carillon/projections/subscriptions"
)

// consumer is a read model or a process manager: it follows the event store from its checkpoint.
type consumer struct {
	name   string
	role   string // of the processes that run it
	kind   string // "readModel" or "process", as operators see it
	filter eventstore.Filter
}

// consumers lists all of them. Runners, lag, status and waits follow from this list.
func consumers() []consumer {
	models, managers := ReadModels(), processManagers(reactions{})
	list := make([]consumer, 0, len(models)+len(managers))
	for _, m := range models {
		list = append(list, consumer{
			name:   m.Name,
			role:   config.RoleProject,
			kind:   "readModel",
			filter: m.Filter,
		})
	}
	for _, m := range managers {
		traits := m.fresh(nil).Traits()
		list = append(list, consumer{
			name:   traits.Name,
			role:   m.role,
			kind:   "process",
			filter: traits.Filter,
		})
	}
	return list
}

// ReadModels lists every read model.
func ReadModels() []projections.ReadModel {
	return []projections.ReadModel{
		organizations.ReadModel, feeds.ReadModel, sources.ReadModel, items.ReadModel, destinations.ReadModel,
		subscriptions.ReadModel, publications.ReadModel, deliveries.ReadModel, health.ReadModel, audit.ReadModel,
		auditors.ReadModel, operators.ReadModel, clientcertificates.ReadModel,
	}
}

// processManager is one of the process managers. Each run of it wants a fresh one.
type processManager struct {
	role  string // of the processes that run it
	fresh func(*projections.Tables) eventstore.ProcessManager
}

// reactions holds the dependencies of process managers.
type reactions struct {
	store     eventstore.Store
	seal      func(ctx context.Context, at eventstore.Position) error
	tombstone func(ctx context.Context, stream string) error
	commands  *command.Commands
	holdings  cascade.Holdings
	handoff   sending.Handoff
	tracer    dispatching.Tracer
	policy    autodisable.Policy
	// keepHappenings is how long happenings are kept after they are over; 0 means forever.
	keepHappenings time.Duration
	log            *slog.Logger
}

// processManagers lists every process manager. Without reactions they have names and filters, and can't be run.
func processManagers(with reactions) []processManager {
	return []processManager{
		{config.RoleDispatch, func(*projections.Tables) eventstore.ProcessManager {
			return cascade.New(with.store, with.holdings)
		}},
		{config.RoleDispatch, func(*projections.Tables) eventstore.ProcessManager {
			d := dispatching.New(with.store, with.handoff)
			d.Tracer = with.tracer
			return d
		}},
		{config.RoleDispatch, func(*projections.Tables) eventstore.ProcessManager {
			return autodisable.New(with.store, with.policy, with.log)
		}},
		{config.RoleCollect, func(tables *projections.Tables) eventstore.ProcessManager {
			return adapters.NewFeedCuration(tables, with.store, with.commands, with.keepHappenings, with.log)
		}},
		{config.RoleDispatch, func(*projections.Tables) eventstore.ProcessManager {
			return retire.NewRemover(with.store, with.seal, with.tombstone)
		}},
	}
}

const (
	sharedFor   = time.Second // an answer holds for the caller without a token
	readyBudget = 3 * time.Second
)

// shared returns the same answer to all callers within a moment, so that the stores are asked no more often than that,
// however many ask. Of those who come at once one asks, and the others wait.
type shared[T any] struct {
	turn chan struct{} // held by who asks
	at   time.Time
	last T
}

func newShared[T any]() *shared[T] { return &shared[T]{turn: make(chan struct{}, 1)} }

func (s *shared[T]) get(find func() T) T {
	s.turn <- struct{}{}
	defer func() { <-s.turn }()
	if s.at.IsZero() || time.Since(s.at) >= sharedFor {
		s.last = find()
		s.at = time.Now()
	}
	return s.last
}

// sharedReady is a check of readiness that many may ask for at once.
func sharedReady(ready func(context.Context) map[string]error) func(context.Context) map[string]error {
	answers := newShared[map[string]error]()
	return func(ctx context.Context) map[string]error {
		return answers.get(func() map[string]error {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), readyBudget) // others wait for it, too
			defer cancel()
			return ready(ctx)
		})
	}
}

// gathered is the result of a scrape.
type gathered struct {
	families []*dto.MetricFamily
	err      error
}

// sharedScrape is metrics that many may ask for at once: some of them are read from the stores.
func sharedScrape(metrics prometheus.Gatherer) prometheus.Gatherer {
	answers := newShared[gathered]()
	return prometheus.GathererFunc(func() ([]*dto.MetricFamily, error) {
		g := answers.get(func() (g gathered) {
			g.families, g.err = metrics.Gather()
			return g
		})
		return g.families, g.err
	})
}
