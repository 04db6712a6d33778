package storenode_test

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/big"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/storenode"
	"carillon/eventstore"
	"carillon/eventstore/esdb"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var silent = slog.New(slog.DiscardHandler)

// run runs a node until the test ends and returns what it says about connecting.
func run(t *testing.T, s storenode.Settings) string {
	t.Helper()
	url, _ := runIn(t, directory(t), s)
	return url
}

func directory(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "carillon") //nolint:usetesting // t.TempDir is too long for a socket
	must.OK(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// runIn is run in a directory, until stop is called.
func runIn(t *testing.T, dir string, s storenode.Settings) (url string, stop func()) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	out, in := io.Pipe()
	ended := make(chan error, 1)
	go func() {
		err := storenode.Run(ctx, dir, s, in, silent)
		_ = in.CloseWithError(io.EOF)
		ended <- err
	}()
	stop = sync.OnceFunc(func() {
		cancel()
		assert.Is(t, <-ended, nil, "run")
	})
	t.Cleanup(stop)
	line := must.Get(bufio.NewReader(out).ReadString('\n'))(t)
	return strings.TrimSpace(line), stop
}

func use(t *testing.T, url string) error {
	t.Helper()
	store, err := esdb.Open(url, silent)
	must.OK(t, err)
	defer func() { _ = store.Close() }()
	if _, err := store.Head(t.Context()); err != nil { // of a refused append the client only says EOF at times
		return err
	}
	_, err = store.Append(t.Context(), "thing-1", eventstore.NoStream, []eventstore.Proposed{{
		ID:   uuid.New(),
		Type: "x",
		Data: []byte(`{}`),
	}})
	return err
}

func TestPlainOnLoopback(t *testing.T) {
	t.Parallel()
	url := run(t, storenode.Settings{Addr: "127.0.0.1:0"})
	assert.True(t, strings.HasPrefix(url, "esdb://127.0.0.1:") && strings.HasSuffix(url, "?tls=false"),
		"connection string %s", url)
	must.OK(t, use(t, url))
}

// A backup can be looked at without becoming another store.
func TestReadOnlyNode(t *testing.T) {
	t.Parallel()
	dir := directory(t)
	url, stop := runIn(t, dir, storenode.Settings{Addr: "127.0.0.1:0"})
	must.OK(t, use(t, url))
	stop()
	files := func() (list []string) {
		entries := must.Get(os.ReadDir(dir))(t)
		for _, entry := range entries {
			info := must.Get(entry.Info())(t)
			if entry.Name() != "LOCK" {
				list = append(list, fmt.Sprintf("%s %d %v", entry.Name(), info.Size(), info.ModTime()))
			}
		}
		return list
	}
	before := files()
	url, stop = runIn(t, dir, storenode.Settings{Addr: "127.0.0.1:0", ReadOnly: true})
	store := must.Get(esdb.Open(url, silent))(t)
	defer func() { _ = store.Close() }()
	events := 0
	for _, err := range store.Read(t.Context(), "thing-1", 0) {
		must.OK(t, err)
		events++
	}
	assert.Equal(t, events, 1, "events")
	if err := use(t, url); err == nil || !strings.Contains(err.Error(), "read-only") {
		t.Errorf("written to: %v", err)
	}
	during := files()
	assert.True(t, slices.Equal(during, before), "before: %v, while it ran: %v", before, during)
	stop()
	after := files()
	assert.True(t, slices.Equal(after, before), "before: %v, after: %v", before, after)
}

func TestTLSAndPassword(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	password := filepath.Join(t.TempDir(), "password")
	must.OK(t, os.WriteFile(password, []byte("sesame seeds\n"), 0o600))
	said := run(t, storenode.Settings{
		Addr:         "0.0.0.0:0",
		TLSCert:      cert,
		TLSKey:       key,
		User:         "admin",
		PasswordFile: password,
	})
	host := must.Get(os.Hostname())(t)
	must.True(t, strings.HasPrefix(said, "esdb://admin:PASSWORD@"+host+":") && !strings.Contains(said, "sesame"),
		"connection string %s", said)
	said = strings.Replace(said, "@"+host, "@127.0.0.1", 1) + "&tlsCaFile=" + cert
	must.OK(t, use(t, strings.Replace(said, "PASSWORD", "sesame%20seeds", 1)))
	if err := use(t, strings.Replace(said, "PASSWORD", "open", 1)); err == nil ||
		!strings.Contains(err.Error(), "the user or the password") {
		t.Errorf("with a wrong password: %v", err)
	}
	untrusted := strings.Replace(strings.TrimSuffix(said, "&tlsCaFile="+cert), "PASSWORD", "sesame%20seeds", 1)
	if err := use(t, untrusted); err == nil || !strings.Contains(err.Error(), "certificate") ||
		strings.Contains(err.Error(), "sesame") {
		t.Errorf("without the authority: %v", err)
	}
	if _, err := esdb.Open(untrusted+"&tlsCaFile=missing.pem", silent); err == nil ||
		!strings.Contains(err.Error(), "missing.pem") {
		t.Errorf("with an authority that isn't there: %v", err)
	}
}

func TestCertificateThatClientsRefuse(t *testing.T) {
	t.Parallel()
	for said, end := range map[string]time.Time{
		"has expired":      time.Now().Add(-time.Minute),
		"is not valid yet": time.Now().Add(24 * time.Hour),
		"expires soon":     time.Now().Add(time.Hour),
	} {
		t.Run(said, func(t *testing.T) {
			t.Parallel()
			cert, key := certificateUntil(t, end)
			var log bytes.Buffer
			ctx, cancel := context.WithCancel(t.Context())
			cancel()
			settings := storenode.Settings{Addr: "127.0.0.1:0", TLSCert: cert, TLSKey: key}
			err := storenode.Run(ctx, t.TempDir(), settings, io.Discard, slog.New(slog.NewTextHandler(&log, nil)))
			must.True(t, err == nil || errors.Is(err, context.Canceled), "%v", err)
			assert.True(t, strings.Contains(log.String(), said) &&
				strings.HasSuffix(log.String(), "msg=\"event store stopped\"\n"), "log: %s", log.String())
		})
	}
}

func TestUnsafeSettingsAreRefused(t *testing.T) {
	t.Parallel()
	cert, key := certificate(t)
	for name, c := range map[string]struct {
		settings storenode.Settings
		names    []string // in the error
	}{
		"everywhere in plain": {
			storenode.Settings{Addr: ":0"},
			[]string{"--addr", "--tls-cert", "--tls-key", "--user", "--password-file"},
		},
		"everywhere without a user": {
			storenode.Settings{Addr: "0.0.0.0:0", TLSCert: cert, TLSKey: key},
			[]string{"--addr", "--user", "--password-file"},
		},
		"a user in plain": {
			storenode.Settings{Addr: "127.0.0.1:0", User: "a", Password: "b"},
			[]string{"--user", "--tls-cert"},
		},
		"a user without a password": {storenode.Settings{
			Addr:    "127.0.0.1:0",
			TLSCert: cert,
			TLSKey:  key,
			User:    "a",
		}, []string{"--password-file"}},
		"a certificate without key": {storenode.Settings{Addr: "127.0.0.1:0", TLSCert: cert}, []string{"--tls-key"}},
		"a certificate not there": {
			storenode.Settings{Addr: "127.0.0.1:0", TLSCert: "nope.pem", TLSKey: key},
			[]string{"--tls-cert", "nope.pem"},
		},
		"a password file not there": {
			storenode.Settings{Addr: "127.0.0.1:0", PasswordFile: "nope"},
			[]string{"--password-file", "nope"},
		},
		"an address that can't be": {storenode.Settings{Addr: "127.0.0.1:99999"}, []string{"--addr"}},
		"a user that can't be given": {storenode.Settings{
			Addr:     "127.0.0.1:0",
			TLSCert:  cert,
			TLSKey:   key,
			User:     "a:b",
			Password: "c",
		}, []string{"--user"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "data")
			err := storenode.Run(t.Context(), dir, c.settings, io.Discard, silent)
			must.True(t, err != nil, "it ran")
			for _, want := range c.names {
				assert.True(t, strings.Contains(err.Error(), want), "error %q does not name %s", err, want)
			}
			if _, err := os.Stat(dir); !os.IsNotExist(err) {
				t.Errorf("it left data: %v", err)
			}
		})
	}
}

// certificate makes a self-signed one for loopback, and returns the files of it and of its key.
func certificate(t *testing.T) (cert, key string) {
	t.Helper()
	return certificateUntil(t, time.Now().Add(time.Hour))
}

func certificateUntil(t *testing.T, end time.Time) (cert, key string) {
	t.Helper()
	private := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: "node"},
		NotBefore:             end.Add(-2 * time.Hour),
		NotAfter:              end,
		IPAddresses:           []net.IP{net.IPv4(127, 0, 0, 1)},
		IsCA:                  true,
		BasicConstraintsValid: true,
		KeyUsage:              x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	der := must.Get(x509.CreateCertificate(rand.Reader, template, template, private.Public(), private))(t)
	pkcs8 := must.Get(x509.MarshalPKCS8PrivateKey(private))(t)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	for file, block := range map[string]*pem.Block{
		cert: {Type: "CERTIFICATE", Bytes: der},
		key:  {Type: "PRIVATE KEY", Bytes: pkcs8},
	} {
		must.OK(t, os.WriteFile(file, pem.EncodeToMemory(block), 0o600))
	}
	return cert, key
}
