// Package app connects the parts of Carillon and runs them: it is the only place that knows them all.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/aggregates/organization"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/tracing"
	"carillon/command"
	"carillon/command/egress"
	"carillon/eventstore/panics"
	"carillon/projections"
	"carillon/query"
)

// App is one process of Carillon. Its parts start in the order in which they stand here, and stop in the reverse order,
// as work flows: first no more requests, then no more deliveries and visits, then no more projections.
type App struct {
	*process
	Commands *command.Commands
	Queries  *query.Queries
	Progress *projections.Progress

	stores     *stores     // the event store, Postgres, the data keys and the clock
	readModels *readModels // read models, the queries over them, and their comparison with the log
	webhooks   *webhooks   // deliveries, and what decides over them
	managers   *managers   // process managers, the seal of the log, retirement, what is recorded once after the start
	collecting *collecting // visits to sources
	servers    *servers    // the API, the admin API and the consoles
}

// process holds what the parts of a process share.
type process struct {
	Metrics   *prometheus.Registry
	cfg       config.Config
	log       *slog.Logger
	startedAt time.Time
	files     *egress.Files
	tracing   *tracing.Tracing         // nil means off
	refused   func(organization.Limit) // counts a request that is refused by a limit
	failed    chan error               // of a part that failed permanently
}

// Open starts what the app stands on, migrates, listens, and connects the parts. Nothing is served yet.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *App, err error) {
	a := &App{process: newProcess(cfg, log)}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.servers, err = openServers(ctx, a.process); err != nil {
		return nil, err // before anything slow: the commonest mistake is a port that is taken
	}
	if err := a.cfg.EnsureSecrets(); err != nil {
		return nil, err
	}
	restored, err := a.cfg.CheckRestored()
	if err != nil {
		return nil, err
	}
	if restored && !cfg.AfterRestore {
		log.Warn("restored from a backup; nothing is sent or visited before a start with --after-restore", "dir", cfg.DataDir)
	}
	if a.tracing, err = tracing.Open(ctx, Version, log); err != nil {
		return nil, err
	}
	if a.stores, err = openStores(ctx, a.process); err != nil {
		return nil, err
	}
	if err := a.connect(); err != nil {
		return nil, err
	}
	if restored && cfg.AfterRestore {
		if err := a.takeOver(ctx); err != nil {
			return nil, err
		}
	}
	return a, nil
}

func newProcess(cfg config.Config, log *slog.Logger) *process {
	p := &process{
		Metrics:   prometheus.NewRegistry(),
		cfg:       cfg,
		log:       log,
		startedAt: time.Now().UTC(),
		files:     outgoing(filesAllowed()),
		failed:    make(chan error, 1),
	}
	p.processMetrics()
	return p
}

// connect makes the parts, each with those before it that it needs.
func (a *App) connect() (err error) {
	a.readModels = newReadModels(a.stores)
	a.Queries, a.Progress = a.readModels.queries, a.readModels.progress
	if a.webhooks, err = newWebhooks(a.readModels); err != nil {
		return err
	}
	if a.Commands, err = newCommands(a.webhooks); err != nil {
		return err
	}
	if a.managers, err = newManagers(a.webhooks, a.Commands); err != nil {
		return err
	}
	if a.collecting, err = newCollecting(a.readModels); err != nil {
		return err
	}
	return a.servers.connect(a.managers, a.collecting)
}

// takeOver records that a restored data directory takes the place of the one that was backed up.
func (a *App) takeOver(ctx context.Context) error {
	by := command.Caller{Actor: "operator", RequestID: uuid.New()}
	if err := a.Commands.RecordAction(ctx, by, command.RecordAction{Action: "take-over-restored"}); err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	return a.cfg.TakeOver()
}

// Run runs the roles of the process until the context ends or a part fails permanently.
func (a *App) Run(ctx context.Context) (err error) {
	a.stores.start()
	a.readModels.start()
	a.webhooks.start()
	a.managers.start()
	a.collecting.start()
	a.servers.start()
	select {
	case <-ctx.Done():
	case err = <-a.failed:
	}
	a.log.Info("stopping")
	stop(a.servers.part)
	stop(a.collecting.part, a.managers.part, a.webhooks.part)
	stop(a.webhooks.following, a.readModels.part, a.stores.part)
	a.log.Info("stopped")
	if err == nil { // unless a part failed as it stopped
		select {
		case err = <-a.failed:
		default:
		}
	}
	return err
}

// Close releases the resources of Open.
func (a *App) Close() {
	if a.servers != nil {
		a.servers.listeners.close()
	}
	if a.stores != nil {
		a.stores.close()
	}
	a.tracing.Close()
}

// APIAddr is the address that the API listens on. Call it only if the process has that role.
func (a *App) APIAddr() net.Addr { return a.servers.listeners.api.Addr() }

// AdminAddr is the address that the admin API listens on.
func (a *App) AdminAddr() net.Addr { return a.servers.listeners.admin.Addr() }

// part holds work that starts together and stops together.
type part struct {
	*process
	ctx     context.Context // ends when the part begins to stop
	cancel  context.CancelFunc
	running sync.WaitGroup
}

func (p *process) newPart() *part {
	part := &part{process: p}
	part.ctx, part.cancel = context.WithCancel(context.Background())
	return part
}

// run starts work. Its error stops the process; a panic starts it again.
func (p *part) run(name string, work func(context.Context) error) {
	p.running.Go(panics.Func(name, func() {
		if err := panics.Keep(p.ctx, name, work); err != nil && !errors.Is(err, context.Canceled) {
			p.fail(err)
		}
	}))
}

// keep starts work that goes on until the part is stopped.
func (p *part) keep(name string, work func(context.Context)) {
	p.running.Go(panics.Loop(p.ctx, name, work))
}

// fail stops the process. The first error is returned by App.Run.
func (p *process) fail(err error) {
	select {
	case p.failed <- err:
	default:
	}
}

// stop ends parts, and returns when the last of them has ended.
func stop(parts ...*part) {
	for _, p := range parts {
		p.cancel()
	}
	for _, p := range parts {
		p.running.Wait()
	}
}
