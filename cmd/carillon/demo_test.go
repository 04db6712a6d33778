package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// selfSigned makes a key and a certificate for a name that this machine does not have, in one file.
func selfSigned(t *testing.T) (file string) {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber: big.NewInt(7),
		Subject:      pkix.Name{CommonName: "carillon.example"},
		DNSNames:     []string{"carillon.example"},
		NotBefore:    time.Now().Add(-time.Hour),
		NotAfter:     time.Now().Add(time.Hour),
	}
	certificate := must.Get(x509.CreateCertificate(rand.Reader, template, template, key.Public(), key))(t)
	private := must.Get(x509.MarshalPKCS8PrivateKey(key))(t)
	text := pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: private})
	text = append(text, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: certificate})...)
	file = filepath.Join(t.TempDir(), "pair.pem")
	must.OK(t, os.WriteFile(file, text, 0o600))
	return file
}

func TestDemoOnServerWithTLS(t *testing.T) {
	t.Parallel()
	pair := selfSigned(t)
	s := openWith(t, func(c *config.Config) { c.Dev, c.TLSCert, c.TLSKey = true, pair, pair })
	var welcome bytes.Buffer
	must.OK(t, s.app.Welcome(t.Context(), &welcome))
	_, command, _ := strings.Cut(welcome.String(), " demo ")
	args := append([]string{"demo"}, strings.Fields(command)...)
	code, out, errors := runIn(t.Context(), "", args...)
	if code != 0 || !strings.Contains(out, "signature verified") || strings.Contains(out, "No development server") {
		t.Errorf("the line that the server prints to paste, carillon %v: exit %d\n%s%s", args, code, out, errors)
	}
	assert.True(t, strings.Contains(out, "/console/enter?token=") && !strings.Contains(out, "could not be put away"),
		"its end:\n%s", out)
	args[len(args)-1] = selfSigned(t)
	fails(t, 1, "another certificate", args...)
	fails(t, 1, "CARILLON_TLS_CERT", args[:len(args)-2]...)
}

func TestDevCertificateIsTrusted(t *testing.T) {
	t.Parallel()
	s := open(t)
	dir := t.TempDir()
	cert, key := filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	files := []string{"--cert", cert, "--key", key, "--data-dir", s.server[1]}
	certify := func(args ...string) (int, string, string) {
		return runIn(t.Context(), "", append(append([]string{"dev", "certificate"}, args...), files...)...)
	}
	for range 2 { // the second replaces the first
		code, out, errors := certify("localhost", "127.0.0.1")
		must.True(t, code == 0 && strings.Contains(out, cert), "exit %d\n%s%s", code, out, errors)
	}
	pair := must.Get(tls.LoadX509KeyPair(cert, key))(t)
	receiver := httptest.NewUnstartedServer(http.NotFoundHandler())
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	defer receiver.Close()
	url := "http://" + s.app.APIAddr().String() + "/events/destinations/validate"
	body := `{"config":{"url":"` + receiver.URL + `"}}`
	answer := ask(t, development(t).key, http.MethodPost, url, body, http.StatusOK)
	assert.Equal(t, strings.Contains(answer, `"reachable":true`), true, "validate: %s", answer)
	if code, _, errors := certify("receiver.example"); code != 1 || !strings.Contains(errors, "CARILLON_EGRESS_CA") {
		t.Errorf("a name elsewhere: exit %d %s", code, errors)
	}
	must.OK(t, os.WriteFile(key, []byte("of another program"), 0o600))
	if code, _, errors := certify("localhost"); code != 1 || !strings.Contains(errors, "name other files") {
		t.Errorf("files of another program: exit %d %s", code, errors)
	}
	fails(t, 1, "not the data directory of a development server", "dev", "certificate", "localhost", "--data-dir", dir,
		"--cert", cert+"2")
}
