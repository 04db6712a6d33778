package esdb_test

import (
	"crypto/tls"
	"encoding/pem"
	"errors"
	"log/slog"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// overTCP is a listener of which the node takes its connections for TCP's, and so asks for TLS.
type overTCP struct{ *pipes }

// Addr implements net.Listener.
func (overTCP) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: 2113} }

// A refused caller gets the reason: waiting would not help. No error contains the password.
func TestRefusal_reported(t *testing.T) {
	t.Parallel()
	authority := httptest.NewTLSServer(nil) // for its certificate
	authority.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	for name, test := range map[string]struct{ url, want string }{
		"right":               {"esdb://admin:right@127.0.0.1:2113?tlsCAFile=" + file, ""},
		"right, by discovery": {"esdb+discover://admin:right@127.0.0.1:2113?tlsCAFile=" + file, ""},
		"wrong password": {
			"esdb://admin:s3cret@127.0.0.1:2113?tlsCAFile=" + file, "Unauthenticated: the user or the password is wrong",
		},
		"no password":        {"esdb://127.0.0.1:2113?tlsCAFile=" + file, "it refuses the user or the password"},
		"unknown authority":  {"esdb://admin:right@127.0.0.1:2113", "its certificate is not trusted"},
		"unknown, discovery": {"esdb+discover://admin:right@127.0.0.1:2113", "its certificate is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) { refused(t, authority.TLS, test.url, test.want) })
		})
	}
}

func refused(t *testing.T, secured *tls.Config, url, want string) {
	t.Helper()
	n, err := node.Open(node.Config{
		Dir:        "store",
		FS:         vfs.NewMem(),
		TLS:        secured,
		User:       "admin",
		Password:   "right",
		GuessDelay: time.Millisecond,
	})
	if err != nil {
		t.Fatal(err)
	}
	listener, served := overTCP{newPipes()}, make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	store, err := esdb.OpenDialed(url, listener.dial, slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(store.Close(), n.Close(), <-served); err != nil {
			t.Error(err)
		}
	}()
	for what, ask := range map[string]func() error{
		"append": func() error { return add(t.Context(), store, uuid.New()) },
		"head":   func() error { _, err := store.Head(t.Context()); return err },
		"subscribe": func() (err error) {
			for _, err = range store.Subscribe(t.Context(), eventstore.Start, eventstore.Filter{}) {
				break
			}
			return err
		},
	} {
		err := ask()
		switch {
		case want == "" && err == nil:
		case want == "" || !errors.Is(err, eventstore.ErrRefused) || !strings.Contains(err.Error(), want):
			t.Errorf("%s: %v, want %q", what, err, want)
		case strings.Contains(err.Error(), "s3cret"):
			t.Errorf("%s: the error says the password: %v", what, err)
		}
	}
}
