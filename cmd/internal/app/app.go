// Package app connects the parts of Carillon and runs them: it is the only place that knows them all.
package app

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/front"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/reach"
	"carillon/eventstore/tail"
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

	cfg       config.Config
	startedAt time.Time
	log       *slog.Logger
	base      *infrastructure
	keys      *custody.Custody
	runner    *projections.Runner
	deliverer *delivery.Deliverer
	queue     *adapters.DeliveryQueue
	holdings  adapters.Holdings
	clock     *adapters.Clock // of all that other processes compare
	// certificates are shown to receivers that ask for one.
	certificates *delivery.Certificates
	expiries     *expiries
	files        *egress.Files
	roots        *x509.CertPool // that collectors trust; nil means the system's

	api       *httpapi.API
	console   *console.Console
	operators *console.Console
	sessions  console.Sessions
	uses      *adapters.CredentialUses
	admin     http.Handler
	rebuilds  *rebuilds
	// storeReach and databaseReach know whether this process reaches what it stands on.
	storeReach, databaseReach *reach.Watch
	lags                      *lags
	vacancies                 *vacancies
	keyless                   atomic.Bool     // the development key is yet to be made
	ending                    context.Context // ends when the process begins to stop
	listeners                 listeners
	// certificate is that of the API; nil where it speaks plain HTTP, or another process has that role.
	certificate *front.Certificate
}

// Open starts what the app stands on, migrates, listens, and connects the parts. Nothing is served yet.
func Open(ctx context.Context, cfg config.Config, log *slog.Logger) (_ *App, err error) {
	a := &App{cfg: cfg, log: log, startedAt: time.Now().UTC(), Metrics: prometheus.NewRegistry(), files: outgoing(filesAllowed())}
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
	if restored {
		log.Warn("restored from a backup; nothing is sent or visited before a start with --after-restore", "dir", cfg.DataDir)
	}
	if a.base, err = openInfrastructure(ctx, &cfg, log); err != nil {
		return nil, err
	}
	if err := a.prepareDatabase(ctx); err != nil {
		return nil, err
	}
	a.clock = &adapters.Clock{Pool: a.base.pool, Log: log}
	if err := a.clock.Look(ctx); err != nil {
		return nil, err
	}
	if err := a.openKeys(ctx); err != nil {
		return nil, err
	}
	if err := a.connect(); err != nil {
		return nil, err
	}
	return a, nil
}

// connect makes the parts and gives each the others that it needs.
func (a *App) connect() error {
	a.keyless.Store(a.cfg.Dev && a.cfg.Is(config.RoleAPI)) // before anything is served, so that readyz never says otherwise
	a.lags, a.vacancies = newLags(a.base.store, time.Now), newVacancies(a.base.pool, a.log, time.Now)
	a.Metrics.MustRegister(buildInfo(ThisBuild), collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		&consumerCollector{pool: a.base.pool, store: a.base.store, lags: a.lags, log: a.log})
	a.storeMetrics()
	a.watchReach()
	a.keyMetrics()
	secrets := sealing.NewVaultOn(a.keys, a.keys.Ring)
	types, err := catalog.New()
	if err != nil {
		return err
	}
	a.Progress = projections.NewProgress(a.base.pool)
	a.runner = &projections.Runner{
		Pool: a.base.pool, Locks: a.base.locks, Store: tail.New(a.base.store, a.log), Log: a.log, Progress: a.Progress, Identity: a.base.store.Identity,
		Reach: a.storeReach,
	}
	policy, options, err := a.deliveryEgress()
	if err != nil {
		return err
	}
	a.certificates = clientCertificates(a.runner.Store, secrets, policy, options, a.log)
	relay := adapters.Relay{Pool: a.base.pool}
	sender := webhook.NewSender(egress.NewTransport(policy, options), webhook.Options{
		Version: Version,
		Timeout: a.cfg.DeliveryTimeout,
		Relay:   relay.For,
	})
	tester := delivery.Tester{Vault: secrets, Sender: sender, Certificates: a.certificates, Now: a.clock.Now}
	a.Queries = &query.Queries{Pool: a.base.pool, WithoutRelevance: !bool(a.cfg.Relevance)}
	a.expiries = &expiries{queries: a.Queries, log: a.log, now: time.Now}
	a.Metrics.MustRegister(&dueCollector{queries: a.Queries, log: a.log}, a.expiries,
		&installationCollector{queries: a.Queries, store: a.storeDir(), log: a.log})
	a.Commands = &command.Commands{
		Store: a.base.store, Now: a.clock.Now, Vault: secrets, Guard: egress.Guard{Policy: policy}, Prober: delivery.Prober{Certificates: a.certificates, Sender: sender},
		Catalog: types, Access: a.Queries, Walks: a.Queries, Quotas: &adapters.Quotas{Pool: a.base.pool, Now: a.clock.Now, Log: a.log}, History: adapters.History{Queries: a.Queries, Progress: a.Progress, Store: a.base.store},
	}
	a.queue = adapters.NewDeliveryQueue(a.runner, a.clock.Now)
	a.deliverer = &delivery.Deliverer{
		Store: a.runner.Store, Queue: a.queue, Vault: secrets, Sender: sender, Certificates: a.certificates, Limits: a.deliveryLimits(),
		Policy: delivery.Policy{
			Timeout: a.cfg.DeliveryTimeout, RetrySchedule: a.cfg.DeliveryRetrySchedule, RetrySpread: delivery.DefaultPolicy.RetrySpread,
		},
		Now: a.clock.Now, Jitter: func() float64 { return 2*rand.Float64() - 1 }, //nolint:gosec // spreads load, protects nothing
		Log: a.log, Record: a.deliveryMetrics(),
		Failed:    func(at eventstore.Position) { a.Progress.Hurry(delivery.DestinationHealthName, at) },
		Suspended: adapters.Suspensions{Queries: a.Queries, Progress: a.Progress, Store: a.base.store}.List,
	}
	a.rebuilds = newRebuilds(a)
	a.uses = &adapters.CredentialUses{Pool: a.base.keys, Log: a.log}
	a.sessions = adapters.ConsoleSessions{Pool: a.base.sessions}
	a.holdings = adapters.Holdings{Store: a.base.store, Progress: a.Progress, Queries: a.Queries, Vault: a.Commands.Vault}
	admin := adminapi.New(adminapi.Dependencies{
		Commands: a.Commands, Queries: a.Queries, Await: a.Progress.Await, Cascaded: a.holdings.Cascaded, Projections: a.rebuilds, Ready: sharedReady(a.ready), Warnings: a.warnings, Keys: a, Uses: a.uses,
		ConsoleLink: a.consoleLink, Ending: func() context.Context { return a.ending },
		Metrics: sharedScrape(a.Metrics), Token: a.cfg.AdminToken.Reveal(), Now: a.clock.Now, Log: a.log, TrustedProxies: a.cfg.TrustedProxies,
	})
	a.api, err = httpapi.New(httpapi.Dependencies{
		Commands: a.Commands, Queries: a.Queries, Keys: &query.Queries{Pool: a.base.keys}, Await: a.Progress.Await, Now: a.clock.Now, Log: a.log,
		Cascaded: a.holdings.Cascaded, Uses: a.uses,
		Rate:    &adapters.RequestRate{Pool: a.base.keys, Now: time.Now},
		Limiter: adapters.NewCheckLimiter(a.base.pool, a.clock.Now), Tester: tester,
		Relay:   relay,
		Ending:  func() context.Context { return a.ending },
		Wake:    a.deliverer.Wake,
		Metrics: a.Metrics, TrustedProxies: a.cfg.TrustedProxies,
	})
	if err != nil {
		return err
	}
	if err := a.connectConsoles(admin, tester); err != nil {
		return err
	}
	a.admin = wire.KnownHost(a.adminHosts(), func(*http.Request) wire.Surface { return wire.Events })(a.operators.Beside(admin))
	return nil
}

// connectConsoles makes the consoles of customers and of operators.
func (a *App) connectConsoles(admin *adminapi.API, tester delivery.Tester) error {
	pages := console.Dependencies{
		Commands: a.Commands, Queries: a.Queries, Sessions: a.sessions, Works: adapters.ConsoleWorks{Pool: a.base.pool}, Verify: a.api.Verify, Admit: a.api.Admit, Await: a.Progress.Await, Events: a.runner.Store,
		Settle: func(ctx context.Context, m projections.ReadModel) error {
			return a.Progress.Settle(ctx, a.base.store, m)
		},
		Limiter: adapters.NewCheckLimiter(a.base.pool, a.clock.Now), LoginLimiter: console.NewLoginLimiter(), Tester: tester,
		Wake: a.deliverer.Wake, Now: a.clock.Now, Log: a.log, TrustedProxies: a.cfg.TrustedProxies,
	}
	var err error
	if a.console, err = console.New(pages); err != nil {
		return err
	}
	triers, err := a.triers()
	if err != nil {
		return err
	}
	a.operators, err = console.NewForOperators(pages, console.Operators{
		Verify: admin.Verify, StillValid: admin.StillValid, Projections: a.rebuilds, System: a.system, Collectors: triers,
	})
	return err
}

// deliveryEgress says which addresses webhooks may reach, and whom they trust.
func (a *App) deliveryEgress() (egress.Policy, egress.Options, error) {
	policy := egress.Policy{Allow: a.cfg.DeliveryAllowCIDRs, Deny: a.cfg.EgressDenyCIDRs}
	// Many destinations may share a host: where all that is in flight goes there, each connection is kept that is used again
	// at once. To open another costs several times what a request does.
	inFlight, idle := connectionsFor(filesAllowed())
	options := egress.Options{MaxIdleConnsPerHost: inFlight, MaxIdleConns: idle, IdleConnTimeout: maxIdleTime, From: a.cfg.EgressAddr, Files: a.files}
	if a.cfg.Dev {
		authority, err := dev.EnsureAuthority(a.cfg.DataDir)
		if err != nil {
			return policy, options, err
		}
		policy.Allow = append(slices.Clone(policy.Allow), dev.Loopback...)
		options.RootCAs = authority.Trust()
	}
	var err error
	if a.roots, err = a.cfg.EgressRoots(nil); err != nil {
		return policy, options, err
	}
	options.RootCAs, err = a.cfg.EgressRoots(options.RootCAs)
	return policy, options, err
}

// Run does what the process's roles say until the context ends or a part fails for good. It stops in the order in which
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
	serving.run(func(ctx context.Context) error { a.vacancies.watch(ctx); return nil })
	serving.run(func(ctx context.Context) error { a.keys.Watch(ctx); return nil })
	serving.run(func(ctx context.Context) error { a.uses.Keep(ctx); return nil })
	projecting.run(func(ctx context.Context) error { a.certificates.Run(ctx); return nil })
	a.startWatching(projecting)
	a.startListening(projecting)
	a.startReadModels(projecting)
	a.startProcessManagers(working)
	if a.cfg.Is(config.RoleDispatch) {
		working.run(a.sealAddresses)
	}
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

// Close gives back what Open took.
func (a *App) Close() {
	a.listeners.close()
	if a.base != nil {
		a.base.close()
	}
}

// APIAddr is the address that the API listens on. Call it only where the process has that role.
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

// run starts a part. Its error stops the process.
func (s *stage) run(part func(context.Context) error) {
	s.parts.Go(func() {
		if err := part(s.ctx); err != nil && !errors.Is(err, context.Canceled) {
			s.fail(err)
		}
	})
}

func (s *stage) stop() {
	s.cancel()
	s.parts.Wait()
}
