package esdb_test

import (
	"encoding/pem"
	"errors"
	"net"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/node"
)

// Whoever is refused hears that, and why: waiting would not help. Nothing says the password.
func TestARefusalIsTold(t *testing.T) {
	t.Parallel()
	authority := httptest.NewTLSServer(nil) // for its certificate
	authority.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	certificate := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: authority.Certificate().Raw})
	if err := os.WriteFile(file, certificate, 0o600); err != nil {
		t.Fatal(err)
	}
	n, err := node.Open(node.Config{Dir: "store", FS: vfs.NewMem(), TLS: authority.TLS, User: "admin", Password: "right", GuessDelay: time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	served := make(chan error, 1)
	go func() { served <- n.Serve(listener) }()
	t.Cleanup(func() { _ = n.Close(); <-served })
	address := listener.Addr().String()

	for name, test := range map[string]struct{ url, want string }{
		"right":               {"esdb://admin:right@" + address + "?tlsCAFile=" + file, ""},
		"right, by discovery": {"esdb+discover://admin:right@" + address + "?tlsCAFile=" + file, ""},
		"wrong password":      {"esdb://admin:s3cret@" + address + "?tlsCAFile=" + file, "Unauthenticated: the user or the password is wrong"},
		"no password":         {"esdb://" + address + "?tlsCAFile=" + file, "it refuses the user or the password"},
		"unknown authority":   {"esdb://admin:right@" + address, "its certificate is not trusted"},
		"unknown, discovery":  {"esdb+discover://admin:right@" + address, "its certificate is not trusted"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := openAt(t, test.url)
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
				var err error
				eventually(t, what+" is answered", func() bool { // a busy machine may not answer in time
					err = ask()
					return !errors.Is(err, eventstore.ErrUnavailable) || errors.Is(err, eventstore.ErrRefused)
				})
				switch {
				case test.want == "" && err == nil:
				case test.want == "" || !errors.Is(err, eventstore.ErrRefused) || !strings.Contains(err.Error(), test.want):
					t.Errorf("%s: %v, want %q", what, err, test.want)
				case strings.Contains(err.Error(), "s3cret"):
					t.Errorf("%s: the error says the password: %v", what, err)
				}
			}
		})
	}
}
