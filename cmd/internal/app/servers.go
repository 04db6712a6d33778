package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"carillon/cmd/internal/adapters"
	"carillon/cmd/internal/adminapi"
	"carillon/cmd/internal/config"
	"carillon/cmd/internal/console"
	"carillon/cmd/internal/front"
	"carillon/cmd/internal/httpapi"
	"carillon/cmd/internal/wire"
	"carillon/projections/analytics"
)

// servers take requests: the API, the admin API and the consoles of both.
type servers struct {
	*part
	stores     *stores
	readModels *readModels
	webhooks   *webhooks
	managers   *managers
	collecting *collecting
	listeners  listeners
	// certificate is that of the API; nil if it speaks plain HTTP, or another process has that role.
	certificate *front.Certificate
	sessions    console.Sessions
	uses        *adapters.CredentialUses
	api         *httpapi.API
	console     *console.Console
	operators   *console.Console
	admin       http.Handler
	keyless     atomic.Bool // the development key is yet to be made
}

// openServers listens, and reads the certificate of the API.
func openServers(ctx context.Context, p *process) (s *servers, err error) {
	s = &servers{part: p.newPart()}
	s.listeners, err = listen(ctx, &p.cfg)
	if err == nil && p.cfg.TLSCert != "" && p.cfg.Is(config.RoleAPI) {
		s.certificate, err = front.ReadCertificate(p.cfg.TLSCert, p.cfg.TLSKey, p.log)
	}
	return s, err
}

// connect makes what answers the requests.
func (s *servers) connect(m *managers, c *collecting) error {
	s.stores, s.readModels, s.webhooks, s.managers, s.collecting = m.stores, m.readModels, m.webhooks, m, c
	s.keyless.Store(s.cfg.Dev && s.cfg.Is(config.RoleAPI)) // before anything is served: readyz never says otherwise
	s.uses = &adapters.CredentialUses{Pool: s.stores.keyPool, Log: s.log}
	s.sessions = adapters.ConsoleSessions{Pool: s.stores.sessionPool, Keys: s.readModels.proven}
	if err := s.connectAPI(); err != nil {
		return err
	}
	admin := s.connectAdmin()
	if err := s.connectConsoles(admin); err != nil {
		return err
	}
	known := wire.KnownHost(s.adminHosts(), func(*http.Request) wire.Surface { return wire.Events })
	s.admin = known(s.operators.Beside(admin))
	s.Metrics.MustRegister(scraped(s.readConnections))
	return nil
}

// traceRequests returns the middleware that traces requests; nil if tracing is off.
func (s *servers) traceRequests() func(http.Handler) http.Handler {
	if s.tracing == nil {
		return nil
	}
	return s.tracing.Requests
}

// connectAdmin makes the admin API.
func (s *servers) connectAdmin() *adminapi.API {
	return adminapi.New(adminapi.Dependencies{
		Trace:          s.traceRequests(),
		Commands:       s.managers.commands,
		Queries:        s.readModels.queries,
		Readers:        wire.Readers{Await: s.webhooks.await, Cascaded: s.webhooks.holdings.Cascaded},
		Projections:    s.readModels.rebuilds,
		Ready:          sharedReady(s.ready),
		Crowded:        func() bool { return s.listeners.admin.Crowded(sparePlaces) },
		Warnings:       s.warnings,
		Keys:           s.stores,
		Seal:           s.managers.seal,
		Analysts:       analytics.Logins{Pool: s.stores.pool, Log: s.log, Loopback: s.cfg.AnalyticsAddr},
		Tokens:         s.readModels.proven,
		Uses:           s.uses,
		ConsoleLink:    s.consoleLink,
		OnBehalf:       s.api.OnBehalf,
		Ending:         func() context.Context { return s.ctx },
		Metrics:        sharedScrape(s.Metrics),
		Token:          s.cfg.AdminToken.Reveal(),
		Now:            s.stores.clock.Now,
		Log:            s.log,
		TrustedProxies: s.cfg.TrustedProxies,
	})
}

// connectAPI makes the API.
func (s *servers) connectAPI() (err error) {
	s.api, err = httpapi.New(httpapi.Dependencies{
		Trace:          s.traceRequests(),
		Commands:       s.managers.commands,
		Queries:        s.readModels.queries,
		Keys:           s.readModels.proven,
		Readers:        wire.Readers{Await: s.webhooks.await, Cascaded: s.webhooks.holdings.Cascaded},
		Now:            s.stores.clock.Now,
		Log:            s.log,
		Uses:           s.uses,
		Writes:         adapters.NewWrites(s.stores.pool, s.refused),
		Rate:           adapters.NewRequestRate(s.stores.keyPool, s.refused),
		Refused:        s.refused,
		Limiter:        adapters.NewCheckLimiter(s.stores.pool),
		Tester:         s.webhooks.tester,
		Relay:          s.webhooks.relay,
		Ending:         func() context.Context { return s.ctx },
		Metrics:        s.Metrics,
		TrustedProxies: s.cfg.TrustedProxies,
	})
	return err
}

// connectConsoles makes the consoles of customers and of operators.
func (s *servers) connectConsoles(admin *adminapi.API) (err error) {
	pages := console.Dependencies{
		Commands:     s.managers.commands,
		Queries:      s.readModels.queries,
		Sessions:     s.sessions,
		Works:        adapters.ConsoleWorks{Pool: s.stores.pool},
		Verify:       s.api.Verify,
		Admit:        s.api.Admit,
		Readers:      wire.Readers{Await: s.webhooks.await},
		Policy:       s.healthPolicy(),
		Limiter:      adapters.NewCheckLimiter(s.stores.pool),
		LoginLimiter: console.NewLoginLimiter(),
		Tester:       s.webhooks.tester,
		Collectors:   s.collecting.trials,
		Theme: console.Theme{
			Name:     s.cfg.ConsoleTheme.Name,
			Logo:     s.cfg.ConsoleTheme.Logo,
			LogoType: s.cfg.ConsoleTheme.LogoType,
			Light:    s.cfg.ConsoleTheme.Light,
			Dark:     s.cfg.ConsoleTheme.Dark,
		},
		Origins:        s.cfg.ConsoleOrigins,
		Version:        Version,
		Now:            s.stores.clock.Now,
		Log:            s.log,
		TrustedProxies: s.cfg.TrustedProxies,
	}
	if s.console, err = console.New(pages); err != nil {
		return err
	}
	s.operators, err = console.NewForOperators(pages, console.Operators{
		Verify:      admin.Verify,
		StillValid:  admin.StillValid,
		Projections: s.readModels.rebuilds,
		System:      s.system,
	})
	return err
}

// consoleLink makes a login link to the console of this process.
func (s *servers) consoleLink(ctx context.Context, of adminapi.ConsoleVisitor) (
	url string, expires time.Time, err error) {
	path, expires, err := console.NewLink(ctx, s.sessions, of, time.Now())
	if !s.cfg.Is(config.RoleAPI) {
		return path, expires, err // another process serves it
	}
	return s.baseURL() + path, expires, err
}

// baseURL is the API's URL on this machine.
func (s *servers) baseURL() string {
	if s.cfg.TLSCert != "" {
		return "https://" + hostPort(s.listeners.api.Addr())
	}
	return "http://" + hostPort(s.listeners.api.Addr())
}

// start serves the admin API, and the API if the process has that role.
func (s *servers) start() {
	s.run("admin API", func(ctx context.Context) error {
		return front.Serve(ctx, s.listeners.admin, s.admin, nil, nil, s.log)
	})
	s.keep("operators' console", s.operators.Run)
	api := "none: not a role of this process"
	if s.cfg.Is(config.RoleAPI) {
		api = s.baseURL()
		if s.certificate != nil {
			s.keep("certificate", s.certificate.Watch)
		}
		s.keep("console", s.console.Run)
		s.run("API", func(ctx context.Context) error {
			return front.Serve(ctx, s.listeners.api, s.console.Beside(s.api), s.api.TooLarge(), s.certificate, s.log)
		})
	}
	s.log.Info("serving", "api", api, "admin", "http://"+hostPort(s.listeners.admin.Addr()),
		"roles", strings.Join(s.cfg.Roles, ","), "version", Version)
}

// listeners are the sockets that the process takes requests on.
type listeners struct{ api, admin *front.Bounded }

func listen(ctx context.Context, cfg *config.Config) (l listeners, err error) {
	mostAPI, mostAdmin := callersFor(filesAllowed())
	if cfg.Is(config.RoleAPI) { // without the role no server would answer
		if l.api, err = listenAt(ctx, cfg.HTTPAddr, cfg.HTTPListener, mostAPI); err != nil {
			return l, refused("CARILLON_HTTP_ADDR", "--http-addr", err)
		}
	}
	if l.admin, err = listenAt(ctx, cfg.AdminAddr, cfg.AdminListener, mostAdmin); err != nil {
		l.close()
		return l, refused("CARILLON_ADMIN_ADDR", "--admin-addr", err)
	}
	return l, nil
}

// listenAt listens at an address, or takes a listener that was handed over, which may be nil.
func listenAt(ctx context.Context, address string, handed net.Listener, most int) (_ *front.Bounded, err error) {
	if handed == nil {
		if handed, err = (&net.ListenConfig{}).Listen(ctx, "tcp", address); err != nil {
			return nil, err
		}
	}
	return front.Bound(handed, most), nil
}

// refused explains how to handle an address that can't be listened on.
func refused(variable, flag string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w: is another server running? Choose another address with %s", variable, err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: ports below 1024 need the capability CAP_NET_BIND_SERVICE. Choose another with %s",
			variable, err, flag)
	}
	return fmt.Errorf("%s: %w: name an address of this machine with %s", variable, err, flag)
}

func (l listeners) close() {
	for _, listener := range []*front.Bounded{l.api, l.admin} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// adminHosts are the names by which the admin API may be asked for.
func (s *servers) adminHosts() []string {
	host, _, err := net.SplitHostPort(s.cfg.AdminAddr)
	if err != nil {
		return s.cfg.AdminHosts
	}
	return append(slices.Clone(s.cfg.AdminHosts), host)
}
