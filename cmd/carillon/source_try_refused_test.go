package main

import (
	"encoding/pem"
	"io"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestSourceTry_failureIsNamed tries what can't be read: the error names the cause and, where there is one, the remedy.
func TestSourceTry_failureIsNamed(t *testing.T) {
	t.Parallel()
	page := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/page" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.WriteString(w, "<p>"+strings.Repeat("Welcome. ", 50))
	})
	plain := httptest.NewServer(page)
	defer plain.Close()
	secure := httptest.NewUnstartedServer(page)
	secure.Config.ErrorLog = log.New(io.Discard, "", 0)
	secure.StartTLS()
	defer secure.Close()
	for url, want := range map[string]string{
		secure.URL + "/page": `connection failed: TLS: the certificate of "O=Acme Co" (issuer "O=Acme Co", `,
		"https" + strings.TrimPrefix(plain.URL, "http"): "connection failed: TLS: the receiver answers without TLS: " +
			"is this the port of plain HTTP?",
		"http://127.0.0.1:1/page": "connection failed: connection refused: no program accepts connections at " +
			"this host and port",
		plain.URL + "/gone": "http status 404",
		"http://1.2.3.4.5/": "connection failed: DNS: could not resolve 1.2.3.4.5: ",
		"http://10.0.0.1/":  "address 10.0.0.1 is private or reserved",
	} {
		code, out, errors := runIn(t.Context(), "", "source", "try", url)
		if code != 1 || out != "" || !strings.Contains(errors, want) {
			t.Errorf("%s: exit %d %s%s", url, code, out, errors)
		}
	}
	file := filepath.Join(t.TempDir(), "ca.pem")
	authority := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: secure.Certificate().Raw})
	if err := os.WriteFile(file, authority, 0o600); err != nil {
		t.Fatal(err)
	}
	code, _, errors := runIn(t.Context(), "", "source", "try", secure.URL+"/page", "--egress-ca", file)
	if code != 0 {
		t.Errorf("with its authority: exit %d %s", code, errors)
	}
}
