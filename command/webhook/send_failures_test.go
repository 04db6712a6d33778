package webhook

import (
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
)

func TestMalformedAnswersHaveOurWords(t *testing.T) {
	t.Parallel()
	const ok = "HTTP/1.1 200 OK\r\n"
	for _, answer := range []string{
		"HTTP/1.1 000 Odd\r\n\r\n", "HTTP/1.1 099 Odd\r\n\r\n", "HTTP/1.1 2000 Odd\r\n\r\n", "HTTP/1.1 OK\r\n\r\n",
		"SSH-2.0-OpenSSH_9.6\r\n", "220 mail.example ESMTP\r\n", ok + "no header\r\n\r\n",
		ok + " X: y\r\n\r\n", ok + "Content-Length: x\r\n\r\n", ok + "Content-Length: 1\r\nContent-Length: 2\r\n\r\n",
		ok + "Transfer-Encoding: zip\r\n\r\n", ok + "X: " + strings.Repeat("y", 2<<20) + "\r\n\r\n",
	} {
		e := startEndpoint(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, answer)
			_ = conn.Close()
		})
		sender := e.sender(t, loopback, Options{})
		result := sender.Send(t.Context(), requestTo(t, e.URL))
		if result.FailureReason != delivery.FailureConnection || result.StatusCode != 0 ||
			!strings.HasPrefix(result.ErrorMessage, "malformed answer: ") || strings.Contains(result.ErrorMessage, "net/http") {
			t.Errorf("%.40q: %+v", answer, result)
		}
		if found := sender.Probe(t.Context(), nil, e.URL); found.Reachable || found.StatusCode != 0 {
			t.Errorf("%.40q: %+v", answer, found)
		}
	}
}

func TestSendFailuresTellNoSecrets(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, status(http.StatusNotFound))
	plain := httptest.NewServer(status(200))
	t.Cleanup(plain.Close)
	const dead = "https://127.0.0.1:1" // no program may listen there without privileges

	trusting := e.sender(t, loopback, Options{})
	distrusting := egress.NewTransport(loopback, egress.Options{RootCAs: x509.NewCertPool()})
	const hidden = "hunter2"
	const selfSigned = `TLS: the certificate of "O=Acme Co" (issuer "O=Acme Co", valid from 1970-01-01 to 2084-01-29) ` +
		"is signed by itself: take one of a public authority, or have the operator trust it (CARILLON_EGRESS_CA)"
	secret := mint(t)
	for _, test := range []struct {
		name    string
		sender  *Sender
		url     string
		secrets []Secret
		reason  delivery.Failure
		message string
	}{
		{"status", trusting, e.URL, []Secret{secret}, "http_status", "endpoint answered 404 Not Found"},
		{"blocked", e.sender(t, egress.Policy{}, Options{}), e.URL, []Secret{secret}, "blocked_address",
			"address 127.0.0.1 is private or reserved"},
		{"refused", trusting, dead, []Secret{secret}, "connection",
			"connection refused: no program accepts connections at this host and port"},
		{"certificate", NewSender(distrusting, Options{}), e.URL, []Secret{secret}, "tls", selfSigned},
		{"plain HTTP", trusting, "https" + strings.TrimPrefix(plain.URL, "http"), []Secret{secret}, "tls",
			"TLS: the receiver answers without TLS: is this the port of plain HTTP?"},
		{"malformed host", trusting, "https://1.2.3.4.5", []Secret{secret}, "dns",
			"DNS: could not resolve 1.2.3.4.5: host is neither an address nor a valid name"},
		{"http", trusting, plain.URL, []Secret{secret}, "connection", "destination URL is not a valid https URL"},
		{"no URL", trusting, "https://user:" + hidden + "@[::1", []Secret{secret}, "connection",
			"destination URL is not a valid https URL"},
		{"no secret", trusting, e.URL, nil, "connection", "destination has no active secret"},
		{"bad header", trusting, e.URL, []Secret{secret}, "connection", `net/http: invalid header field value for "x-bad"`},
	} {
		headers := map[string]string{"Authorization": "Bearer " + hidden}
		if test.name == "bad header" {
			headers["x-bad"] = hidden + "\n"
		}
		result := test.sender.Send(t.Context(), Request{
			URL:     test.url + "/" + hidden + "?token=" + hidden,
			Headers: headers,
			Secrets: test.secrets,
			ID:      "d",
			Body:    []byte(hidden),
		})
		if result.FailureReason != test.reason || result.ErrorMessage != test.message {
			t.Errorf("%s: %q, %q", test.name, result.FailureReason, result.ErrorMessage)
		}
		if shown := fmt.Sprintf("%+v", result); strings.Contains(shown, hidden) ||
			strings.Contains(shown, secret.Reveal()[6:]) {
			t.Errorf("%s: reveals a secret: %s", test.name, shown)
		}
	}
}
