package main

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

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
		if code, out, errors := certify("localhost", "127.0.0.1"); code != 0 || !strings.Contains(out, cert) {
			t.Fatalf("exit %d\n%s%s", code, out, errors)
		}
	}
	pair, err := tls.LoadX509KeyPair(cert, key)
	if err != nil {
		t.Fatal(err)
	}
	receiver := httptest.NewUnstartedServer(http.NotFoundHandler())
	receiver.TLS = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	receiver.StartTLS()
	defer receiver.Close()
	url := "http://" + s.app.APIAddr().String() + "/events/destinations/validate"
	body := `{"config":{"url":"` + receiver.URL + `"}}`
	answer := ask(t, development(t).key, http.MethodPost, url, body, http.StatusOK)
	if !strings.Contains(answer, `"reachable":true`) {
		t.Errorf("validate: %s", answer)
	}
	if code, _, errors := certify("receiver.example"); code != 1 || !strings.Contains(errors, "CARILLON_EGRESS_CA") {
		t.Errorf("a name elsewhere: exit %d %s", code, errors)
	}
	if err := os.WriteFile(key, []byte("of another program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if code, _, errors := certify("localhost"); code != 1 || !strings.Contains(errors, "name other files") {
		t.Errorf("files of another program: exit %d %s", code, errors)
	}
	code, _, errors := runIn(t.Context(), "", "dev", "certificate", "localhost", "--data-dir", dir, "--cert", cert+
		"2")
	if code != 1 || !strings.Contains(errors, "not the data directory of a development server") {
		t.Errorf("another directory: exit %d %s", code, errors)
	}
}
