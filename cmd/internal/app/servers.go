package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"time"

	"carillon/cmd/internal/config"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	writeTimeout      = 6 * time.Minute // the longest request tests an endpoint for 5 minutes; see also wire.Pace
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 10 * time.Second
	maxHeaderBytes    = 32 << 10
)

// listeners are the sockets that the process takes requests on.
type listeners struct{ api, admin net.Listener }

func listen(ctx context.Context, cfg *config.Config) (l listeners, err error) {
	var lc net.ListenConfig
	if cfg.Is(config.RoleAPI) { // without the role nobody would answer those who connect
		if l.api, err = lc.Listen(ctx, "tcp", cfg.HTTPAddr); err != nil {
			return l, refused("CARILLON_HTTP_ADDR", "--http-addr", err)
		}
	}
	if l.admin, err = lc.Listen(ctx, "tcp", cfg.AdminAddr); err != nil {
		l.close()
		return l, refused("CARILLON_ADMIN_ADDR", "--admin-addr", err)
	}
	return l, nil
}

// refused says what to do about an address that can't be listened on.
func refused(variable, flag string, err error) error {
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		return fmt.Errorf("%s: %w: is another server running? Choose another address with %s", variable, err, flag)
	case errors.Is(err, syscall.EACCES):
		return fmt.Errorf("%s: %w: ports below 1024 need the capability CAP_NET_BIND_SERVICE. Choose another with %s", variable, err, flag)
	}
	return fmt.Errorf("%s: %w: name an address of this machine with %s", variable, err, flag)
}

func (l listeners) close() {
	for _, listener := range []net.Listener{l.api, l.admin} {
		if listener != nil {
			_ = listener.Close()
		}
	}
}

// startServers serves the admin API, and the API where the process has that role.
func (a *App) startServers(s *stage) {
	s.run(func(ctx context.Context) error { return serve(ctx, a.listeners.admin, a.admin, a.log, "", "") })
	api := "none: not a role of this process"
	if a.cfg.Is(config.RoleAPI) {
		api = a.baseURL()
		s.run(func(ctx context.Context) error {
			return serve(ctx, a.listeners.api, a.console.Beside(a.api), a.log, a.cfg.TLSCert, a.cfg.TLSKey)
		})
	}
	a.log.Info("serving", "api", api, "admin", "http://"+hostPort(a.AdminAddr()), "roles", strings.Join(a.cfg.Roles, ","), "version", Version)
}

// serve answers requests until the context ends, then lets those under way finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger, cert, key string) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, WriteTimeout: writeTimeout, IdleTimeout: idleTimeout,
		MaxHeaderBytes: maxHeaderBytes, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelDebug),
		TLSConfig: &tls.Config{MinVersion: tls.VersionTLS12},
	}
	closed := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(closed)
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
		defer cancel()
		if err := server.Shutdown(closing); err != nil {
			_ = server.Close()
		}
	})
	var err error
	if cert != "" {
		err = server.ServeTLS(listener, cert, key)
	} else {
		err = server.Serve(listener)
	}
	if !stop() {
		<-closed
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
