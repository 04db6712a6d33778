package main

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"math/big"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/cmd/internal/config"
	"carillon/cmd/internal/doctor"
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
	certify := func(names ...string) []string { return slices.Concat([]string{"dev", "certificate"}, names, files) }
	for range 2 { // the second replaces the first
		prints(t, cert, certify("localhost", "127.0.0.1")...)
	}
	pair := must.Get(tls.LoadX509KeyPair(cert, key))(t)
	receiver := httptest.NewUnstartedServer(http.NotFoundHandler())
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	defer receiver.Close()
	url := "http://" + s.app.APIAddr().String() + "/events/destinations/validate"
	body := `{"config":{"url":"` + receiver.URL + `"}}`
	answer := ask(t, development(t).key, http.MethodPost, url, body, http.StatusOK)
	assert.True(t, strings.Contains(answer, `"reachable":true`), "validate: %s", answer)
	fails(t, 1, "CARILLON_EGRESS_CA", certify("receiver.example")...)
	must.OK(t, os.WriteFile(key, []byte("of another program"), 0o600))
	fails(t, 1, "name other files", certify("localhost")...)
	fails(t, 1, "not the data directory of a development server", "dev", "certificate", "localhost", "--data-dir", dir,
		"--cert", cert+"2")
}

// TestDoctor examines a machine on which nothing was started yet: what fails decides over the exit code.
func TestDoctor(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	free := []string{"doctor", "--json", "--data-dir", dir, "--http-addr", "127.0.0.1:0", "--admin-addr", "127.0.0.1:0"}
	code, out, complaint := runIn(t.Context(), "", free...)
	var findings []doctor.Finding
	if err := json.Unmarshal([]byte(out), &findings); err != nil || code != 0 || len(findings) < 15 || complaint != "" {
		t.Errorf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	code, out, complaint = runIn(t.Context(), "", "doctor", "--data-dir", dir, "--backup", dir)
	assert.True(t, code == 1 && strings.Contains(out, "holds no whole backup") && complaint != "" &&
		strings.Contains(out, `→ make one: "carillon backup`), "exit %d\n%s%s", code, out, complaint)
}

// TestConfigShow: each value has its source, and no secret shows.
func TestConfigShow(t *testing.T) {
	t.Setenv("CARILLON_ADMIN_TOKEN", "hunter2hunter2hunter2hunter2hunter2")
	t.Setenv("CARILLON_HTTP_ADDR", "127.0.0.1:9090")
	code, out, complaint := runIn(t.Context(), "", "config", "show", "--json", "--roles", "api,deliver",
		"--database-url", "postgres://carillon:hunter2@host/x")
	var settings []setting
	if err := json.Unmarshal([]byte(out), &settings); err != nil || code != 0 || strings.Contains(out, "hunter2") {
		t.Fatalf("exit %d, %v\n%s%s", code, err, out, complaint)
	}
	want := map[string]string{
		"admin-token":             "[hidden] CARILLON_ADMIN_TOKEN",
		"http-addr":               "127.0.0.1:9090 CARILLON_HTTP_ADDR",
		"roles":                   "api,deliver flag",
		"delivery-timeout":        "30s default",
		"delivery-retry-schedule": "5s,5m0s,30m0s,2h0m0s,5h0m0s,10h0m0s,14h0m0s,20h0m0s,24h0m0s default",
	}
	for _, s := range settings {
		if got, asked := want[s.Flag]; asked && s.Value+" "+s.From != got {
			t.Errorf("%+v, want %s", s, got)
		}
		delete(want, s.Flag)
	}
	assert.True(t, len(want) == 0, "not shown: %v", want)
}

// The secrets that compose.yaml has no default for are made once, and a server takes them.
func TestInitMakesSecrets(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), ".env")
	prints(t, "", "init", file)
	made := string(must.Get(os.ReadFile(file))(t))
	values := map[string]string{}
	for line := range strings.Lines(made) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[name] = value
	}
	compose := string(must.Get(os.ReadFile("../../deploy/compose.yaml"))(t))
	for _, found := range regexp.MustCompile(`\$\{(\w+):\?`).FindAllStringSubmatch(compose, -1) {
		if len(values[found[1]]) < 32 {
			t.Errorf("%s is %q", found[1], values[found[1]])
		}
	}
	assert.Equal(t, must.Get(os.Stat(file))(t).Mode().Perm(), 0o600, "mode")
	prints(t, "settings are right", "serve", "--check-config", "--master-key", values["CARILLON_MASTER_KEY"],
		"--admin-token", values["CARILLON_ADMIN_TOKEN"])
	fails(t, 1, "is there already", "init", file)
	fails(t, 2, "is missing: CARILLON_TLS_CERT needs it", "serve", "--check-config", "--tls-cert", file)
	assert.Equal(t, string(must.Get(os.ReadFile(file))(t)), made, "the file was replaced")
}
