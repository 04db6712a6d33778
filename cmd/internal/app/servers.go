package app

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"time"

	"carillon/cmd/internal/config"
)

const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 30 * time.Second
	idleTimeout       = 2 * time.Minute
	shutdownTimeout   = 10 * time.Second
	maxHeaderBytes    = 32 << 10
)

// listeners are the process's doors.
type listeners struct{ api, admin net.Listener }

func listen(ctx context.Context, cfg *config.Config) (l listeners, err error) {
	var lc net.ListenConfig
	if l.api, err = lc.Listen(ctx, "tcp", cfg.HTTPAddr); err != nil {
		return l, fmt.Errorf("CARILLON_HTTP_ADDR: %w: is another server running? Choose another address with --http-addr", err)
	}
	if l.admin, err = lc.Listen(ctx, "tcp", cfg.AdminAddr); err != nil {
		l.close()
		return l, fmt.Errorf("CARILLON_ADMIN_ADDR: %w: choose another address with --admin-addr", err)
	}
	return l, nil
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
	if a.cfg.Is(config.RoleAPI) {
		s.run(func(ctx context.Context) error {
			return serve(ctx, a.listeners.api, a.api, a.log, a.cfg.TLSCert, a.cfg.TLSKey)
		})
	}
}

// serve answers requests until the context ends, then lets those under way finish.
func serve(ctx context.Context, listener net.Listener, handler http.Handler, log *slog.Logger, cert, key string) error {
	server := &http.Server{
		Handler: handler, ReadHeaderTimeout: readHeaderTimeout, ReadTimeout: readTimeout, IdleTimeout: idleTimeout,
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
