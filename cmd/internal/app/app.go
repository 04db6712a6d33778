// Package app connects the parts of Carillon and runs them: it is the only place that knows them all.
package app

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/front"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/tracing"
	"carillon/command"
	"carillon/command/delivery"
	"carillon/command/delivery/facts"
	"carillon/command/egress"
	"carillon/command/irreversible"
	"carillon/command/retire"
	"carillon/command/treeheads"
	"carillon/eventstore/panics"
	"carillon/eventstore/reach"
	"carillon/projections"
	"carillon/query"
)

// Connections to endpoints that stay open between requests. They are given up before receivers usually do, so that a
// request rarely meets one that is being closed: Node.js and Apache wait 5 s, most proxies a minute or more.
const (
	maxIdle     = 4096
	maxIdleTime = 4 * time.Second
)

// App is one process of Carillon.
type App struct {
	Commands *command.Commands
	Queries  *query.Queries
	Progress *projections.Progress
	Metrics  *prometheus.Registry
	// Unhurried collectors ask a host without pauses, for measurements with hosts of one's own. To be set before Run.
	Unhurried bool
	// Look is how long a turn is to look for what became due, where it is not the usual time. To be set before Run.
	Look time.Duration

	cfg        config.Config
	startedAt  time.Time
	log        *slog.Logger
	base       *infrastructure
	keys       *custody.Custody
	runner     *projections.Runner
	deliverer  *delivery.Deliverer
	deliverers *adapters.Deliverers
	queue      *adapters.DeliveryQueue
	relay      *adapters.Relay
	quotas     *adapters.Quotas
	holdings   adapters.Holdings
	clock      *adapters.Clock // of all that other processes compare
	gate       *irreversible.Gate
	// facts decide what deliveries may be sent, and how.
	facts      *facts.Follower
	expiries   *expiries
	seal       *treeheads.Hourly
	retirement *retire.Retirer // nil if this process retires nothing
	files      *egress.Files
	roots      *x509.CertPool // that collectors trust; nil means the system's

	api       *httpapi.API
	console   *console.Console
	operators *console.Console
	sessions  console.Sessions
	uses      *adapters.CredentialUses
	proven    *adapters.Proven
	admin     http.Handler
	rebuilds  *rebuilds
	// verifications compare read models with the log.
	verifications *verifications
	// storeReach and databaseReach know whether this process reaches what it stands on.
	storeReach, databaseReach *reach.Watch
	lags                      *lags
	vacancies                 *vacancies
	keyless                   atomic.Bool     // the development key is yet to be made
	ending                    context.Context // ends when the process begins to stop
	listeners                 listeners
	// certificate is that of the API; nil if it speaks plain HTTP, or another process has that role.
	certificate *front.Certificate
	tracing     *tracing.Tracing // nil means off
}

// Open starts what the app stands on, migrates, listens, and connects the parts. Nothing is served yet.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *App, err error) {
	a := &App{
		cfg:       cfg,
		log:       log,
		startedAt: time.Now().UTC(),
		Metrics:   prometheus.NewRegistry(),
		files:     outgoing(filesAllowed()),
	}
	defer func() {
		if err != nil {
			a.Close()
		}
	}()
	if a.listeners, err = listen(ctx, &cfg); err != nil {
		return nil, err // before anything slow: the commonest mistake is a port that is taken
	}
	if cfg.TLSCert != "" && cfg.Is(config.RoleAPI) {
		if a.certificate, err = front.ReadCertificate(cfg.TLSCert, cfg.TLSKey, log); err != nil {
			return nil, err
		}
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
	if a.base, err = openInfrastructure(ctx, &cfg, log); err != nil {
		return nil, err
	}
	if a.tracing != nil {
		a.base.store = a.tracing.Store(a.base.store)
	}
	a.watchDeletedStreams()
	if err := a.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	a.clock = &adapters.Clock{Pool: a.base.pool, Log: log}
	if err := a.clock.Look(ctx); err != nil {
		return nil, err
	}
	a.gate = &irreversible.Gate{Store: a.base.store, Database: a.clock.Ask, Own: time.Now}
	if err := a.openKeys(ctx); err != nil {
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

// takeOver records that a restored data directory takes the place of the one that was backed up.
func (a *App) takeOver(ctx context.Context) error {
	by := command.Caller{Actor: "operator", RequestID: uuid.New()}
	if err := a.Commands.RecordAction(ctx, by, command.RecordAction{Action: "take-over-restored"}); err != nil {
		return fmt.Errorf("record the restore: %w", err)
	}
	return a.cfg.TakeOver()
}

// Run runs the roles of the process until the context ends or a part fails permanently. It stops in the order in which
// work flows: first no more requests, then no more deliveries and visits, then no more projections.
func (a *App) Run(ctx context.Context) error {
	var failure error
	var once sync.Once
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	a.ending = ctx
	fail := func(err error) {
		if err != nil {
			once.Do(func() { failure = err })
			cancel()
		}
	}
	projecting, working, serving := newStage(fail), newStage(fail), newStage(fail)
	serving.keep("vacancies", a.vacancies.watch)
	serving.keep("data keys", a.keys.Watch)
	serving.keep("credential uses", a.uses.Keep)
	serving.keep("changes of credentials", a.proven.Watch)
	projecting.keep("facts of deliveries", a.facts.Run)
	a.startWatching(projecting)
	a.startListening(projecting)
	a.startReadModels(projecting)
	a.startProcessManagers(working)
	if a.cfg.Is(config.RoleDispatch) {
		working.run("addresses", a.sealAddresses)
		working.run("operator webhook", a.setOperatorWebhook)
	}
	a.startSealing(working)
	a.startRetiring(working)
	a.startDelivery(working, projecting)
	fail(a.startCollection(working))
	a.startServers(serving)
	select {
	case <-ctx.Done():
	case err := <-a.base.failed:
		fail(err)
	}
	a.log.Info("stopping")
	for _, s := range []*stage{serving, working, projecting} {
		s.stop()
	}
	a.rebuilds.wait()
	a.log.Info("stopped")
	return failure
}

// Close releases the resources of Open.
func (a *App) Close() {
	a.listeners.close()
	if a.base != nil {
		a.base.close()
	}
	a.tracing.Close()
}

// APIAddr is the address that the API listens on. Call it only if the process has that role.
func (a *App) APIAddr() net.Addr { return a.listeners.api.Addr() }

// AdminAddr is the address that the admin API listens on.
func (a *App) AdminAddr() net.Addr { return a.listeners.admin.Addr() }

// stage is a group of parts that are stopped together.
type stage struct {
	ctx    context.Context
	cancel context.CancelFunc
	fail   func(error)
	parts  sync.WaitGroup
}

func newStage(fail func(error)) *stage {
	s := &stage{fail: fail}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	return s
}

// run starts a part. Its error stops the process; a panic starts it again.
func (s *stage) run(name string, part func(context.Context) error) {
	s.parts.Go(panics.Func(name, func() {
		if err := panics.Keep(s.ctx, name, part); err != nil && !errors.Is(err, context.Canceled) {
			s.fail(err)
		}
	}))
}

// keep starts a part that goes on until the stage is stopped.
func (s *stage) keep(name string, part func(context.Context)) {
	s.parts.Go(panics.Loop(s.ctx, name, part))
}

func (s *stage) stop() {
	s.cancel()
	s.parts.Wait()
}
