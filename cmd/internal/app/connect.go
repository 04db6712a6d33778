package app

import (
	"context"
	"crypto/x509"
	"math/rand/v2"
	"net/http"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus/collectors"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/dev"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/command"
	"carillon/command/catalog"
	"carillon/command/delivery"
	"carillon/command/delivery/facts"
	"carillon/command/egress"
	"carillon/command/sealing"
	"carillon/command/webhook"
	"carillon/eventstore"
	"carillon/eventstore/tail"
	"carillon/projections"
	"carillon/projections/analytics"
	"carillon/query"
)

// sending holds the parts that deliveries, tests and probes of destinations share.
type sending struct {
	vault  *sealing.Vault
	policy egress.Policy
	sender *webhook.Sender
	tester delivery.Tester
	roots  *x509.CertPool // that receivers' certificates are trusted by; nil means the system's
}

// connect makes the parts and gives each the others that it needs.
func (a *App) connect() error {
	a.keyless.Store(a.cfg.Dev && a.cfg.Is(config.RoleAPI)) // before anything is served: readyz never says otherwise
	a.lags, a.vacancies = newLags(a.base.store, time.Now), newVacancies(a.base.pool, a.log, time.Now)
	a.connectReading()
	a.connectMetrics()
	with, err := a.connectSending()
	if err != nil {
		return err
	}
	if err := a.connectCommands(with); err != nil {
		return err
	}
	if err := a.connectSeal(with); err != nil {
		return err
	}
	a.connectRetirement()
	a.connectDelivery(with)
	admin := a.connectAdmin()
	if err := a.connectAPI(with); err != nil {
		return err
	}
	if err := a.connectConsoles(admin, with.tester); err != nil {
		return err
	}
	known := wire.KnownHost(a.adminHosts(), func(*http.Request) wire.Surface { return wire.Events })
	a.admin = known(a.operators.Beside(admin))
	return nil
}

// connectReading makes the runner of projections and the queries.
func (a *App) connectReading() {
	a.watchReach()
	a.Progress = projections.NewProgress(a.base.pool)
	a.runner = &projections.Runner{
		Pool:     a.base.pool,
		Locks:    a.base.locks,
		Store:    tail.New(a.base.store, a.log),
		Log:      a.log,
		Progress: a.Progress,
		Identity: a.base.store.Identity,
		Reach:    a.storeReach,
	}
	a.Queries = &query.Queries{Pool: a.base.pool, WithoutRelevance: !bool(a.cfg.Relevance)}
	a.rebuilds = newRebuilds(a)
	a.verifications = &verifications{
		runner:   a.runner,
		statuses: a.statuses,
		now:      a.clock.Now,
		log:      a.log,
	}
	a.uses = &adapters.CredentialUses{Pool: a.base.keys, Log: a.log}
	a.proven = adapters.NewProven(&query.Queries{Pool: a.base.keys}, a.base.store, a.Progress.Await, a.clock.Now, a.log)
	a.verifications.proven = a.proven
	a.sessions = adapters.ConsoleSessions{Pool: a.base.sessions, Keys: a.proven}
}

// connectMetrics registers the collectors of metrics.
func (a *App) connectMetrics() {
	a.expiries = &expiries{queries: a.Queries, log: a.log, now: time.Now}
	checkpoints := &consumerCollector{
		pool:  a.base.pool,
		store: a.base.store,
		lags:  a.lags,
		log:   a.log,
	}
	a.Metrics.MustRegister(
		buildInfo(ThisBuild),
		collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		scraped(checkpoints.read),
		scraped(a.readWaiting),
		scraped(a.expiries.read),
		scraped(a.readInstallation),
		scraped(readPanics),
		scraped(a.readConnections),
	)
	a.storeMetrics()
	a.keyMetrics()
}

// connectSending makes what sends requests to destinations.
func (a *App) connectSending() (sending, error) {
	with := sending{vault: sealing.NewVaultOn(a.keys, a.keys.Ring)}
	a.relay = &adapters.Relay{Pool: a.base.pool, Locks: a.base.locks}
	policy, options, err := a.deliveryEgress()
	if err != nil {
		return with, err
	}
	with.policy, with.roots = policy, options.RootCAs
	a.facts = a.followed(with.vault, policy, options)
	with.sender = webhook.NewSender(egress.NewTransport(policy, options), webhook.Options{
		Version: Version,
		Timeout: a.cfg.DeliveryTimeout,
		Relay:   a.relay.For,
	})
	with.tester = delivery.Tester{
		Facts:  a.facts,
		Sender: with.sender,
		Now:    a.clock.Now,
	}
	return with, nil
}

// connectCommands makes the use cases.
func (a *App) connectCommands(with sending) error {
	a.quotas = &adapters.Quotas{
		Pool:    a.base.pool,
		Locks:   a.base.locks,
		Now:     a.clock.Now,
		Log:     a.log,
		Refused: a.limitMetrics(),
	}
	a.relay.Refused = a.quotas.Refused
	types, err := catalog.New()
	if err != nil {
		return err
	}
	a.Commands = &command.Commands{
		Store:   a.base.store,
		Now:     a.clock.Now,
		Vault:   with.vault,
		Guard:   egress.Guard{Policy: with.policy},
		Prober:  facts.Prober{Facts: a.facts, Sender: with.sender},
		Catalog: types,
		Access:  a.Queries,
		Walks:   a.Queries,
		Quotas:  a.quotas,
		History: adapters.History{Queries: a.Queries, Progress: a.Progress, Store: a.base.store},
		Backlog: adapters.Backlog{Queries: a.Queries, Progress: a.Progress, Store: a.base.store},

		Retain:              a.cfg.RetainDeliveries,
		RetainHappenings:    a.cfg.RetainHappenings,
		OrganizationSources: bool(a.cfg.OrgSources) || a.cfg.Dev,
	}
	a.holdings = adapters.Holdings{
		Store:    a.base.store,
		Progress: a.Progress,
		Queries:  a.Queries,
		Vault:    a.Commands.Vault,
	}
	return nil
}

// connectDelivery makes the worker that delivers.
func (a *App) connectDelivery(with sending) {
	a.queue = adapters.NewDeliveryQueue(a.runner, a.clock.Now)
	a.deliverers = &adapters.Deliverers{Locks: a.base.locks}
	a.deliverer = &delivery.Deliverer{
		Store:    a.runner.Store,
		Queue:    a.queue,
		Vault:    with.vault,
		Turns:    adapters.ReceiverTurns{Hosts: adapters.Hosts{Pool: a.base.pool}},
		Sender:   with.sender,
		Facts:    a.facts,
		Settings: a.deliverySettings(),
		Policy: delivery.Policy{
			Timeout:       a.cfg.DeliveryTimeout,
			RetrySchedule: a.cfg.DeliveryRetrySchedule,
		},
		Now:    a.clock.Now,
		Jitter: func() float64 { return 2*rand.Float64() - 1 }, //nolint:gosec // spreads load, protects nothing
		Log:    a.log,
		Record: a.deliveryMetrics(),
		Failed: func(at eventstore.Position) { a.Progress.Hurry(delivery.DestinationHealthName, at) },
		Look:   delivery.DefaultLook,
		Turn: func(begins time.Time) bool {
			worker, _ := a.queue.Worker()
			return a.deliverers.Turn(worker, begins)
		},
	}
	a.deliverers.LeasedUntil = a.deliverer.LeasedUntil
	if a.cfg.Is(config.RoleDeliver) {
		a.deliverers.Here, a.facts.Listener = a.deliverer, a.deliverer
		a.facts.Dispatches, a.facts.Suspended = !a.cfg.Is(config.RoleDispatch), a.holdings.Suspended
	}
	if a.tracing != nil {
		a.deliverer.Tracer = a.tracing
	}
}

// traceRequests returns the middleware that traces requests; nil if tracing is off.
func (a *App) traceRequests() func(http.Handler) http.Handler {
	if a.tracing == nil {
		return nil
	}
	return a.tracing.Requests
}

// connectAdmin makes the admin API.
func (a *App) connectAdmin() *adminapi.API {
	return adminapi.New(adminapi.Dependencies{
		Trace:       a.traceRequests(),
		Commands:    a.Commands,
		Queries:     a.Queries,
		Readers:     wire.Readers{Await: a.await, Cascaded: a.holdings.Cascaded},
		Projections: a.rebuilds,
		Ready:       sharedReady(a.ready),
		Crowded:     func() bool { return a.listeners.admin.Crowded(sparePlaces) },
		Warnings:    a.warnings,
		Keys:        a,
		Seal:        a.seal,
		Analysts:    analytics.Logins{Pool: a.base.pool, Log: a.log, Loopback: a.cfg.AnalyticsAddr},
		Tokens:      a.proven,
		Uses:        a.uses,
		ConsoleLink: a.consoleLink,
		OnBehalf: func(w http.ResponseWriter, r *http.Request, by command.Caller) {
			a.api.OnBehalf(w, r, by)
		},
		Ending:         func() context.Context { return a.ending },
		Metrics:        sharedScrape(a.Metrics),
		Token:          a.cfg.AdminToken.Reveal(),
		Now:            a.clock.Now,
		Log:            a.log,
		TrustedProxies: a.cfg.TrustedProxies,
	})
}

// connectAPI makes the API.
func (a *App) connectAPI(with sending) (err error) {
	a.api, err = httpapi.New(httpapi.Dependencies{
		Trace:          a.traceRequests(),
		Commands:       a.Commands,
		Queries:        a.Queries,
		Keys:           a.proven,
		Readers:        wire.Readers{Await: a.await, Cascaded: a.holdings.Cascaded},
		Now:            a.clock.Now,
		Log:            a.log,
		Uses:           a.uses,
		Writes:         &adapters.Writes{Quotas: a.quotas},
		Rate:           &adapters.RequestRate{Pool: a.base.keys, Now: time.Now, Refused: a.quotas.Refused},
		Refused:        a.quotas.Refused,
		Limiter:        adapters.NewCheckLimiter(a.base.pool, a.clock.Now),
		Tester:         with.tester,
		Relay:          a.relay,
		Ending:         func() context.Context { return a.ending },
		Metrics:        a.Metrics,
		TrustedProxies: a.cfg.TrustedProxies,
	})
	return err
}

// healthPolicy returns when a destination that fails is disabled.
func (a *App) healthPolicy() delivery.HealthPolicy {
	return delivery.HealthPolicy{After: a.cfg.AutoDisableAfter, MinStreak: a.cfg.AutoDisableMinStreak}
}

// connectConsoles makes the consoles of customers and of operators.
func (a *App) connectConsoles(admin *adminapi.API, tester delivery.Tester) error {
	triers, err := a.triers()
	if err != nil {
		return err
	}
	pages := console.Dependencies{
		Commands:     a.Commands,
		Queries:      a.Queries,
		Sessions:     a.sessions,
		Works:        adapters.ConsoleWorks{Pool: a.base.pool},
		Verify:       a.api.Verify,
		Admit:        a.api.Admit,
		Readers:      wire.Readers{Await: a.await},
		Policy:       a.healthPolicy(),
		Limiter:      adapters.NewCheckLimiter(a.base.pool, a.clock.Now),
		LoginLimiter: console.NewLoginLimiter(),
		Tester:       tester,
		Collectors:   triers,
		Theme: console.Theme{
			Name:     a.cfg.ConsoleTheme.Name,
			Logo:     a.cfg.ConsoleTheme.Logo,
			LogoType: a.cfg.ConsoleTheme.LogoType,
			Light:    a.cfg.ConsoleTheme.Light,
			Dark:     a.cfg.ConsoleTheme.Dark,
		},
		Version:        Version,
		Now:            a.clock.Now,
		Log:            a.log,
		TrustedProxies: a.cfg.TrustedProxies,
	}
	if a.console, err = console.New(pages); err != nil {
		return err
	}
	a.operators, err = console.NewForOperators(pages, console.Operators{
		Verify:      admin.Verify,
		StillValid:  admin.StillValid,
		Projections: a.rebuilds,
		System:      a.system,
	})
	return err
}

// deliveryEgress returns which addresses webhooks may reach, and which authorities they trust.
func (a *App) deliveryEgress() (egress.Policy, egress.Options, error) {
	policy := egress.Policy{Allow: a.cfg.DeliveryAllowCIDRs, Deny: a.cfg.EgressDenyCIDRs}
	// Many destinations may share a host: if all requests in flight go there, each connection that is used again at once
	// is kept. Opening another costs several times what a request does.
	inFlight, idle := connectionsFor(filesAllowed())
	options := egress.Options{
		MaxIdleConnsPerHost: inFlight,
		MaxIdleConns:        idle,
		IdleConnTimeout:     maxIdleTime,
		From:                a.cfg.EgressAddr,
		Files:               a.files,
	}
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
