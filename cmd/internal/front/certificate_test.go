package front_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/front"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// pair makes a certificate, and its key, as PEM.
func pair(t *testing.T, name string) (cert, key []byte) {
	t.Helper()
	made := mtlstest.NewAuthority(t, "Ours").Issue(name, nil)
	return []byte(made.Chain), []byte(made.Key)
}

func files(t *testing.T, name string) (cert, key string) {
	t.Helper()
	cert, key = filepath.Join(t.TempDir(), "cert.pem"), filepath.Join(t.TempDir(), "key.pem")
	write(t, name, cert, key)
	return cert, key
}

func write(t *testing.T, name, cert, key string) {
	t.Helper()
	certPEM, keyPEM := pair(t, name)
	put(t, cert, certPEM)
	put(t, key, keyPEM)
}

func put(t *testing.T, path string, data []byte) {
	t.Helper()
	must.OK(t, os.WriteFile(path, data, 0o600))
}

// log keeps what is logged.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// TestCertificateIsReadAgain: a new certificate is used without a start; a damaged one, a key that does not fit and a
// file that is gone leave the former one, and are logged once each.
func TestCertificateIsReadAgain(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		cert, key := files(t, "one.example")
		var logged log
		certificate := must.Get(front.ReadCertificate(cert, key, slog.New(slog.NewTextHandler(&logged, nil))))(t)
		ctx, cancel := context.WithCancel(t.Context())
		go certificate.Watch(ctx)
		defer synctest.Wait()
		defer cancel()
		in := func(want string, lines int) {
			t.Helper()
			time.Sleep(time.Minute) // of the bubble: several looks
			synctest.Wait()
			assert.Equal(t, front.Name(certificate), want, "the certificate is that of")
			if got := strings.Count(logged.String(), "\n"); got != lines {
				t.Errorf("%d lines are logged, want %d:\n%s", got, lines, logged.String())
			}
		}
		in("one.example", 0)
		write(t, "two.example", cert, key)
		in("two.example", 1)
		put(t, cert, []byte("-----BEGIN CERTIFICATE-----\nrubbish"))
		in("two.example", 2)
		three, threeKey := pair(t, "three.example")
		put(t, cert, three) // its key comes later
		in("two.example", 3)
		put(t, key, threeKey)
		in("three.example", 4)
		must.OK(t, os.Remove(cert))
		in("three.example", 5)
		put(t, cert, three)
		in("three.example", 5)
		assert.True(t, !strings.Contains(logged.String(), "PRIVATE") &&
			strings.Contains(logged.String(), "CARILLON_TLS_CERT"), "logged:\n%s", logged.String())
	})
}

// TestNewHandshakesShowTheNewCertificate over a real connection.
func TestNewHandshakesShowTheNewCertificate(t *testing.T) {
	t.Parallel()
	cert, key := files(t, "one.example")
	certificate := must.Get(front.ReadCertificate(cert, key, slog.New(slog.DiscardHandler)))(t)
	to := serve(t, certificate)
	shown := func() string {
		conn := tls.Client(dial(t, to), &tls.Config{
			InsecureSkipVerify: true,
			MinVersion:         tls.VersionTLS12,
		}) //nolint:gosec // whose it is, is the question
		must.OK(t, conn.HandshakeContext(t.Context()))
		return conn.ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	must.Equal(t, shown(), "one.example", "shown")
	write(t, "two.example", cert, key)
	must.OK(t, front.Look(certificate))
	assert.Equal(t, shown(), "two.example", "after the change it")
}
