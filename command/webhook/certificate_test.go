package webhook

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"io"
	"log"
	"math/big"
	"net"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"carillon/command/egress"
	"carillon/eventstore/storetest/must"
)

// signer is a certificate with its key.
type signer struct {
	certificate *x509.Certificate
	key         *ecdsa.PrivateKey
}

// sign makes a certificate that is valid for a day from the given time on. A nil authority means that it signs itself.
func sign(t *testing.T, name string, from time.Time, authority *signer) signer {
	t.Helper()
	key := must.Get(ecdsa.GenerateKey(elliptic.P256(), rand.Reader))(t)
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(1),
		Subject:               pkix.Name{CommonName: name},
		NotBefore:             from,
		NotAfter:              from.Add(24 * time.Hour),
		BasicConstraintsValid: true,
		IsCA:                  authority == nil || strings.HasPrefix(name, "Intermediate"),
	}
	if template.IsCA {
		template.KeyUsage = x509.KeyUsageCertSign
	} else if address := net.ParseIP(name); address != nil {
		template.IPAddresses = []net.IP{address}
	} else {
		template.DNSNames = []string{name}
	}
	parent := &signer{certificate: template, key: key}
	if authority != nil {
		parent = authority
	}
	raw := must.Get(x509.CreateCertificate(rand.Reader, template, parent.certificate, &key.PublicKey, parent.key))(t)
	made := must.Get(x509.ParseCertificate(raw))(t)
	return signer{certificate: made, key: key}
}

// A refused certificate is named, with the authority that is missing and what to do.
func TestCertificateIsNamed(t *testing.T) {
	t.Parallel()
	now := time.Now()
	known := sign(t, "Known Root", now.Add(-time.Hour), nil)
	other := sign(t, "Other Root", now.Add(-time.Hour), nil)
	between := sign(t, "Intermediate of Other Root", now.Add(-time.Hour), &other)
	between2 := sign(t, "Intermediate of Known Root", now.Add(-time.Hour), &known)
	pool := x509.NewCertPool()
	pool.AddCert(known.certificate)
	for name, test := range map[string]struct {
		host  string // in the certificate
		from  time.Time
		by    *signer
		chain []*signer
		want  []string
	}{
		"another authority": {"127.0.0.1", now, &other, nil, []string{
			`the certificate of "127.0.0.1" (issuer "Other Root", valid from `,
			`is signed by "Other Root", which is not known here`, "CARILLON_EGRESS_CA",
		}},
		"its root is sent": {"127.0.0.1", now, &other, []*signer{&other}, []string{
			`is of the authority "Other Root", which is not known here`,
		}},
		"an intermediate": {"127.0.0.1", now, &between, []*signer{&between}, []string{`is signed by "Other Root", which`}},
		"none is sent": {"127.0.0.1", now, &between2, nil, []string{
			`is signed by "Intermediate of Known Root"`, "send its certificate along",
		}},
		"another name": {"shop.example", now, &known, nil, []string{`is for shop.example, and not for 127.0.0.1`}},
		"a line feed":  {"shop\nTLS", now, &known, nil, []string{"is for shop\uFFFDTLS, and not for 127.0.0.1"}},
		"expired": {"127.0.0.1", now.Add(-72 * time.Hour), &known, nil, []string{
			`of "127.0.0.1"`, "is not valid now: renew it",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			from := test.from.Add(-time.Minute)
			leaf := sign(t, test.host, from, test.by)
			shown := tls.Certificate{Certificate: [][]byte{leaf.certificate.Raw}, PrivateKey: leaf.key}
			for _, one := range test.chain {
				shown.Certificate = append(shown.Certificate, one.certificate.Raw)
			}
			server := httptest.NewUnstartedServer(status(200))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			sender := NewSender(egress.NewTransport(loopback, egress.Options{RootCAs: pool}), Options{})
			got := sender.Probe(t.Context(), nil, server.URL)
			if got.FailureReason != "tls" || !strings.HasPrefix(got.ErrorMessage, "TLS: the certificate of ") {
				t.Errorf("%s: %s", got.FailureReason, got.ErrorMessage)
			}
			for _, want := range test.want {
				if !strings.Contains(got.ErrorMessage, want) {
					t.Errorf("%q does not say %q", got.ErrorMessage, want)
				}
			}
		})
	}
}

// A timeout says what did not come.
func TestTimeoutNamesItsStage(t *testing.T) {
	t.Parallel()
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() }) // the kernel accepts, without a handshake
	sender := NewSender(egress.NewTransport(loopback, egress.Options{}), Options{Timeout: time.Second})
	got := sender.Send(t.Context(), requestTo(t, "https://"+listener.Addr().String()))
	const want = "timeout: the TLS handshake did not end within "
	if got.FailureReason != "timeout" || !strings.HasPrefix(got.ErrorMessage, want) {
		t.Errorf("%s: %s", got.FailureReason, got.ErrorMessage)
	}
}
