package config_test

import (
	"crypto/x509"
	"encoding/pem"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"carillon/cmd/internal/config"
	"carillon/eventstore/storetest/must"
)

func TestEgressRoots_authorityFile(t *testing.T) {
	t.Parallel()
	server := httptest.NewTLSServer(http.NotFoundHandler())
	defer server.Close()
	file := filepath.Join(t.TempDir(), "ca.pem")
	text := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: server.Certificate().Raw})
	must.OK(t, os.WriteFile(file, append([]byte("\uFEFF"), text...), 0o600))
	for _, given := range []*x509.CertPool{nil, x509.NewCertPool()} {
		roots := must.Get((&config.Config{EgressCA: file}).EgressRoots(given))(t)
		if _, err := server.Certificate().Verify(x509.VerifyOptions{Roots: roots, DNSName: "example.com"}); err != nil {
			t.Errorf("not trusted: %v", err)
		}
	}
	must.OK(t, os.WriteFile(file, server.Certificate().Raw, 0o600))
	if _, err := (&config.Config{EgressCA: file}).EgressRoots(nil); err == nil ||
		!strings.Contains(err.Error(), "is binary (DER)") {
		t.Errorf("a file in DER: %v", err)
	}
	if roots, err := (&config.Config{}).EgressRoots(nil); roots != nil || err != nil {
		t.Errorf("without a file: %v, %v", roots, err)
	}
}
