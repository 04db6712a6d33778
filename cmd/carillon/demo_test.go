package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
)

// selfSigned makes a key and a certificate for a name that this machine does not have, in one file.
func selfSigned(t *testing.T) (file string) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: "carillon.example"},
		DNSNames:     []string{"carillon.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	certificate, err := x509.CreateCertificate(rand.Reader, template, template, key.Public(), key)
	if err != nil {
		t.Fatal(err)
	}
	private, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...)
	file = filepath.Join(t.TempDir(), "pair.pem")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

func TestDemoOnServerWithTLS(t *testing.T) {
	t.Parallel()
	pair := selfSigned(t)
	s := openWith(t, func(c *config.Config) { c.Dev, c.TLSCert, c.TLSKey = true, pair, pair })
	var welcome bytes.Buffer
	if err := s.app.Welcome(t.Context(), &welcome); err != nil {
		t.Fatal(err)
	}
	_, command, _ := strings.Cut(welcome.String(), " demo ")
	args := append([]string{"demo"}, strings.Fields(command)...)
	code, out, errors := runIn(t.Context(), "", args...)
	if code != 0 || !strings.Contains(out, "signature verified") || strings.Contains(out, "No development server") {
		t.Errorf("the line that the server prints to paste, carillon %v: exit %d\n%s%s", args, code, out, errors)
	}
	if !strings.Contains(out, "/console/enter?token=") || strings.Contains(out, "could not be put away") {
		t.Errorf("its end:\n%s", out)
	}
	args[len(args)-1] = selfSigned(t)
	if code, _, errors := runIn(t.Context(), "", args...); code != 1 ||
		!strings.Contains(errors, "another certificate") {
		t.Errorf("a certificate that the server does not have: exit %d %s", code, errors)
	}
	if code, _, errors := runIn(t.Context(), "", args[:len(args)-2]...); code != 1 ||
		!strings.Contains(errors, "CARILLON_TLS_CERT") {
		t.Errorf("no certificate: exit %d %s", code, errors)
	}
}
