package front

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"carillon/command/mtls"
)

// lookEvery is the time between two looks at the files of a certificate.
const lookEvery = 10 * time.Second

// Certificate is a server's certificate, which is read again when its files change.
type Certificate struct {
	certFile, keyFile string
	log               *slog.Logger
	current           atomic.Pointer[tls.Certificate]
	cert, key         []byte // content of the files at the last look
}

// ReadCertificate reads a certificate, with those between it and the root, and its key; both are PEM files.
func ReadCertificate(certFile, keyFile string, log *slog.Logger) (*Certificate, error) {
	c := &Certificate{certFile: certFile, keyFile: keyFile, log: log}
	if _, err := c.reload(); err != nil {
		return nil, err
	}
	return c, nil
}

// reload reads the files if they have changed since the last reload. Damaged files, and a key that does not fit, change
// nothing.
func (c *Certificate) reload() (changed bool, err error) {
	cert, err := mtls.ReadPEM(c.certFile)
	if err != nil {
		return false, fmt.Errorf("CARILLON_TLS_CERT: %w", err)
	}
	key, err := mtls.ReadPEM(c.keyFile)
	if err != nil {
		return false, fmt.Errorf("CARILLON_TLS_KEY: %w", err)
	}
	if bytes.Equal(cert, c.cert) && bytes.Equal(key, c.key) {
		return false, nil
	}
	c.cert, c.key = cert, key
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return false, fmt.Errorf("CARILLON_TLS_CERT and CARILLON_TLS_KEY: %w", err)
	}
	c.current.Store(&pair)
	return true, nil
}

// Watch looks at the files now and then until the context ends.
func (c *Certificate) Watch(ctx context.Context) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	last := "" // the last logged trouble
	for {
		select {
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
		changed, err := c.reload()
		switch {
		case err != nil && err.Error() != last:
			last = err.Error()
			c.log.Error("the certificate's files changed and can't be used: the certificate of before stays", "error", err)
		case changed:
			last = ""
			c.log.Info("the certificate was read again", "validUntil", c.current.Load().Leaf.NotAfter)
		}
	}
}

// config is that of a server, for HTTP/2 and HTTP/1.1.
func (c *Certificate) config() *tls.Config {
	return &tls.Config{
		MinVersion:     tls.VersionTLS12,
		NextProtos:     []string{"h2", "http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return c.current.Load(), nil },
	}
}
