package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/front"
)

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
func (a *App) adminHosts() []string {
	host, _, err := net.SplitHostPort(a.cfg.AdminAddr)
	if err != nil {
		return a.cfg.AdminHosts
	}
	return append(slices.Clone(a.cfg.AdminHosts), host)
}

// startServers serves the admin API, and the API if the process has that role.
func (a *App) startServers(s *stage) {
	s.run("admin API", func(ctx context.Context) error {
		return front.Serve(ctx, a.listeners.admin, a.admin, nil, nil, a.log)
	})
	s.keep("operators' console", a.operators.Run)
	api := "none: not a role of this process"
	if a.cfg.Is(config.RoleAPI) {
		api = a.baseURL()
		if a.certificate != nil {
			s.keep("certificate", a.certificate.Watch)
		}
		s.keep("console", a.console.Run)
		s.run("API", func(ctx context.Context) error {
			return front.Serve(ctx, a.listeners.api, a.console.Beside(a.api), a.api.TooLarge(), a.certificate, a.log)
		})
	}
	a.log.Info("serving", "api", api, "admin", "http://"+hostPort(a.AdminAddr()), "roles", strings.Join(a.cfg.Roles, ","),
		"version", Version)
}
