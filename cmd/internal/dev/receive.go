package dev

import (
	"context"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"time"
)

const readHeaderTimeout = 10 * time.Second

// Receive serves a handler over TLS on a free port of loopback until stop. origin is its address: https://host:port.
func (a *Authority) Receive(ctx context.Context, handler http.HandlerFunc) (origin string, stop func(), err error) {
	certificate, err := a.Certificate()
	if err != nil {
		return "", nil, err
	}
	var lc net.ListenConfig
	listener, err := lc.Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, fmt.Errorf("receive webhooks: %w", err)
	}
	server := &http.Server{
		Handler:           handler,
		ReadHeaderTimeout: readHeaderTimeout,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12},
	}
	go func() { _ = server.ServeTLS(listener, "", "") }() // until stop
	return "https://" + listener.Addr().String(), func() { _ = server.Close() }, nil
}
