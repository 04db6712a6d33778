// Package app connects the parts of Carillon and runs them: it is the only place that knows them all.
package app

import (
	"context"
	"crypto/x509"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/custody"
	"carillon/cmd/internal/front"
	"carillon/cmd/internal/httpapi"
	"carillon/command"
	"carillon/command/delivery"
	"carillon/command/egress"
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
