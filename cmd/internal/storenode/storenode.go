// Package storenode runs the embedded event store alone, for EventStoreDB clients over TCP.
package storenode

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/storenode/maintenance"
	"carillon/command/mtls"
	"carillon/eventstore/node"
)

// Settings configure the node.
type Settings struct {
	Addr         string        `env:"CARILLON_EVENTSTORE_ADDR" default:"127.0.0.1:2113" placeholder:"HOST:PORT" help:"Listen address (${default})."`
	TLSCert      string        `name:"tls-cert" env:"CARILLON_EVENTSTORE_TLS_CERT" placeholder:"FILE" help:"Certificate (chain), PEM."`
	TLSKey       string        `name:"tls-key" env:"CARILLON_EVENTSTORE_TLS_KEY" placeholder:"FILE" help:"Private key of the certificate, PEM."`
	User         string        `env:"CARILLON_EVENTSTORE_USER" placeholder:"NAME" help:"User name of clients."`
	Password     config.Secret `env:"CARILLON_EVENTSTORE_PASSWORD" placeholder:"PASSWORD" help:"The user's password. Prefer the variable or a file, because command lines are visible to others."`
	PasswordFile string        `env:"CARILLON_EVENTSTORE_PASSWORD_FILE" placeholder:"FILE" help:"File with the password."`
	ReadOnly     bool          `name:"read-only" env:"CARILLON_EVENTSTORE_READ_ONLY" help:"Read-only: reads and subscriptions work, everything else is refused."`
	Advertise    string        `env:"CARILLON_EVENTSTORE_ADVERTISE" placeholder:"HOST:PORT" help:"Address advertised to clients that discover the node. Empty: the listen address, with the machine's name if it listens everywhere."`
}

// Run serves a directory until the context ends or the storage fails. It prints how to connect.
func Run(ctx context.Context, dir string, s Settings, out io.Writer, log *slog.Logger) (err error) {
	security, err := s.security()
	if err != nil {
		return err
	}
	warnOfCertificate(security, time.Now(), log)
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", s.Addr)
	if err != nil {
		return fmt.Errorf("--addr (CARILLON_EVENTSTORE_ADDR): %w", err)
	}
	if err := s.refuseExposed(listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	if s.Advertise == "" {
		if s.Advertise, err = reachable(listener.Addr()); err != nil {
			return errors.Join(err, listener.Close())
		}
	}
	n, err := node.Open(node.Config{
		Dir:       dir,
		Logger:    log,
		TLS:       security,
		User:      s.User,
		Password:  s.Password.Reveal(),
		Advertise: s.Advertise,
		ReadOnly:  s.ReadOnly,
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	defer func() {
		err = errors.Join(err, n.Close())
		log.Info("event store stopped")
	}()
	if !s.ReadOnly { // its tasks change the directory, as does its socket
		m, err := maintenance.Serve(n, dir, "", log)
		if err != nil {
			return errors.Join(err, listener.Close())
		}
		defer m.Close()
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	log.Info("event store serves", "address", listener.Addr().String(), "data", dir, "tls", security != nil,
		"readOnly", s.ReadOnly)
	if _, err := fmt.Fprintln(out, s.connection()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		log.Info("event store stopping")
		return nil
	case err := <-served:
		return err
	case <-n.Failed():
		return n.Err()
	}
}

// security checks what protects the node and loads it. It fills in the password.
func (s *Settings) security() (*tls.Config, error) {
	if s.Password == "" && s.PasswordFile != "" {
		text, err := os.ReadFile(s.PasswordFile)
		if err != nil {
			return nil, fmt.Errorf("--password-file (CARILLON_EVENTSTORE_PASSWORD_FILE): %w", err)
		}
		s.Password = config.Secret(strings.TrimRight(strings.TrimPrefix(string(text), "\uFEFF"), "\r\n"))
	}
	switch {
	case (s.TLSCert == "") != (s.TLSKey == ""):
		return nil, errors.New("--tls-cert and --tls-key (CARILLON_EVENTSTORE_TLS_CERT, _KEY) belong together: give both " +
			"or neither")
	case (s.User == "") != (s.Password == ""):
		return nil, errors.New("--user and --password-file (CARILLON_EVENTSTORE_USER, _PASSWORD) belong together: give " +
			"both or neither")
	case strings.Contains(s.User, ":"):
		return nil, errors.New("--user (CARILLON_EVENTSTORE_USER) must not contain a colon")
	case s.TLSCert == "" && s.User != "":
		return nil, errors.New("--user needs --tls-cert and --tls-key: clients send no password over a connection that is " +
			"not encrypted")
	case s.TLSCert == "":
		return nil, nil //nolint:nilnil // no TLS is an answer
	}
	cert, err := mtls.ReadPEM(s.TLSCert)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert %w", err)
	}
	key, err := mtls.ReadPEM(s.TLSKey)
	if err != nil {
		return nil, fmt.Errorf("--tls-key %w", err)
	}
	certificate, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return nil, fmt.Errorf("--tls-cert, --tls-key: %w", err)
	}
	return &tls.Config{Certificates: []tls.Certificate{certificate}, MinVersion: tls.VersionTLS12}, nil
}

// renewal is how long before its end a certificate should be renewed.
const renewal = 14 * 24 * time.Hour

// warnOfCertificate warns the operator of problems that only clients would see.
func warnOfCertificate(security *tls.Config, now time.Time, log *slog.Logger) {
	if security == nil {
		return
	}
	leaf := security.Certificates[0].Leaf
	switch {
	case now.After(leaf.NotAfter):
		log.Warn("the certificate has expired: clients refuse it", "expired", leaf.NotAfter)
	case now.Before(leaf.NotBefore):
		log.Warn("the certificate is not valid yet: clients refuse it", "validFrom", leaf.NotBefore)
	case now.After(leaf.NotAfter.Add(-renewal)):
		log.Warn("the certificate expires soon: a new one is read when the node starts", "expires", leaf.NotAfter)
	}
}

// refuseExposed requires a password and TLS if other machines can reach the node.
func (s *Settings) refuseExposed(addr net.Addr) error {
	if s.TLSCert != "" && s.User != "" || loopback(addr) {
		return nil
	}
	var missing []string
	if s.TLSCert == "" {
		missing = append(missing, "--tls-cert, --tls-key")
	}
	if s.User == "" {
		missing = append(missing, "--user, --password-file")
	}
	return fmt.Errorf("--addr %s can be reached from other machines: give %s, or listen on 127.0.0.1", s.Addr,
		strings.Join(missing, ", "))
}

func loopback(addr net.Addr) bool {
	parsed, err := netip.ParseAddrPort(addr.String())
	return err == nil && parsed.Addr().Unmap().IsLoopback()
}

// reachable is the address of a listener for other machines: with the machine's name if it listens everywhere.
func reachable(addr net.Addr) (string, error) {
	parsed, err := netip.ParseAddrPort(addr.String())
	if err != nil || !parsed.Addr().IsUnspecified() {
		return addr.String(), nil //nolint:nilerr // whatever it is, it is its address
	}
	name, err := os.Hostname()
	if err != nil {
		return "", fmt.Errorf("--advertise (CARILLON_EVENTSTORE_ADVERTISE) is needed: %w", err)
	}
	return net.JoinHostPort(name, strconv.Itoa(int(parsed.Port()))), nil
}

// connection is the connection string for clients, without the password.
func (s *Settings) connection() string {
	switch {
	case s.TLSCert == "":
		return "esdb://" + s.Advertise + "?tls=false"
	case s.User == "":
		return "esdb://" + s.Advertise + "?tls=true"
	}
	return "esdb://" + url.PathEscape(s.User) + ":PASSWORD@" + s.Advertise + "?tls=true"
}
