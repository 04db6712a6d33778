package webhook

import (
	"crypto/tls"
	"crypto/x509"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/command/mtls/mtlstest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// showing makes connections to a receiver that show a certificate; nil means none.
func showing(t *testing.T, r *mtlstest.Receiver, pair *mtlstest.Pair) *http.Transport {
	t.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(r.Certificate())
	options := egress.Options{RootCAs: pool}
	if pair != nil {
		shown := must.Get(tls.X509KeyPair([]byte(pair.Chain), []byte(pair.Key)))(t)
		options.Certificate = &shown
	}
	transport := egress.NewTransport(loopback, options)
	t.Cleanup(transport.CloseIdleConnections)
	return transport
}

func versions(each func(name string, limit func(*tls.Config) *tls.Config)) {
	for name, version := range map[string]uint16{"TLS 1.2": tls.VersionTLS12, "TLS 1.3": tls.VersionTLS13} {
		each(name, func(c *tls.Config) *tls.Config {
			c.MaxVersion = version
			return c
		})
	}
}

// requestVia is a signed request over a transport of its own.
func requestVia(tb testing.TB, url string, via http.RoundTripper) Request {
	tb.Helper()
	request := requestTo(tb, url)
	request.Via = via
	return request
}

// TestHostileReceiversSayWhatTheyWant: a receiver that asks for a certificate and gets none, or one that it refuses, is
// named as such in the attempt's error, whatever the version of TLS and however it ends the connection.
func TestHostileReceiversSayWhatTheyWant(t *testing.T) {
	t.Parallel()
	authority, stranger := mtlstest.NewAuthority(t, "Receiver's"), mtlstest.NewAuthority(t, "Stranger's")
	good, foreign := authority.Issue("good", nil), stranger.Issue("foreign", nil)
	late := authority.Issue("late", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	const none, refused = "wants a client certificate", "refused your organization's client certificate: "
	versions(func(name string, limit func(*tls.Config) *tls.Config) {
		for _, tt := range []struct {
			name    string
			pair    *mtlstest.Pair
			message string
		}{
			{"good", &good, ""}, {"none", nil, none}, {"foreign", &foreign, refused + "unknown certificate authority"},
			{"late", &late, refused + "expired certificate"},
		} {
			t.Run(name+" "+tt.name, func(t *testing.T) {
				t.Parallel()
				for range 20 { // the error depends on which side is faster
					r := mtlstest.Receive(t, limit(authority.Require()), nil)
					request := requestVia(t, r.URL, via(showing(t, r, tt.pair), tt.pair))
					result := NewSender(showing(t, r, nil), Options{}).Send(t.Context(), request)
					switch {
					case tt.message == "":
						if !result.OK() || !slices.Equal(r.Shown(), []string{"good"}) {
							t.Fatalf("got %+v, shown %v", result, r.Shown())
						}
					case result.FailureReason == delivery.FailureTLS && strings.Contains(result.ErrorMessage, tt.message):
					case result.FailureReason != delivery.FailureTimeout &&
						strings.Contains(result.ErrorMessage, "asked for a client certificate"):
						// It gave no reason, or that was lost with the connection.
					default:
						t.Fatalf("got %+v", result)
					}
					if len(r.Shown()) > 0 && tt.message != "" {
						t.Error("a request arrived")
					}
				}
			})
		}
	})
}

// via is nil if there is no certificate, as an organization's without one.
func via(transport *http.Transport, pair *mtlstest.Pair) http.RoundTripper {
	if pair == nil {
		return nil
	}
	return transport
}

// Some receivers, as nginx, let the handshake pass and answer 400; also on connections that resume a session.
func TestHostileReceiversThatAnswer(t *testing.T) {
	t.Parallel()
	authority := mtlstest.NewAuthority(t, "Receiver's")
	good := authority.Issue("good", nil)
	versions(func(name string, limit func(*tls.Config) *tls.Config) {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := mtlstest.Receive(t, limit(&tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}),
				func(w http.ResponseWriter, got *http.Request) {
					w.Header().Set("Connection", "close")
					switch {
					case got.URL.Path == "/500":
						w.WriteHeader(http.StatusInternalServerError)
					case len(got.TLS.PeerCertificates) == 0 || got.URL.Path == "/403":
						w.WriteHeader(http.StatusForbidden)
					}
				})
			certified := showing(t, r, &good)
			sender := NewSender(showing(t, r, nil), Options{})
			for range 3 {
				for _, tt := range []struct {
					path    string
					via     http.RoundTripper
					message string
				}{
					{"/", certified, ""},
					{"/", nil, "endpoint answered 403 Forbidden; the receiver asked for a client certificate, and your organization " +
						"has none: the operator can set one"},
					{"/403", certified, "endpoint answered 403 Forbidden; the receiver asked for a client certificate, " +
						"and was shown your organization's"},
					{"/500", nil, "endpoint answered 500 Internal Server Error"},
				} {
					result := sender.Send(t.Context(), requestVia(t, r.URL+tt.path, tt.via))
					assert.True(t, result.ErrorMessage == tt.message, "%s: %+v, want %q", tt.path, result, tt.message)
				}
			}
		})
	})
}

// A receiver that hangs in the handshake costs its own attempt, with or without a certificate.
func TestHostileHandshakeHangs(t *testing.T) {
	t.Parallel()
	good := mtlstest.NewAuthority(t, "Receiver's").Issue("good", nil)
	stuck, released := make(chan struct{}), make(chan struct{})
	r := mtlstest.Receive(t, &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetConfigForClient: func(*tls.ClientHelloInfo) (*tls.Config, error) {
			close(stuck)
			<-released
			return nil, nil //nolint:nilnil // the configuration stays
		},
	}, nil)
	t.Cleanup(func() { close(released) })
	result := NewSender(showing(t, r, nil), Options{Timeout: time.Second}).
		Send(t.Context(), requestVia(t, r.URL, showing(t, r, &good)))
	<-stuck
	assert.True(t, result.FailureReason == delivery.FailureTimeout && !result.Aborted, "got %+v", result)
}

// The guard against private addresses stands before connections that show a certificate, too.
func TestHostileAddressesWithCertificate(t *testing.T) {
	t.Parallel()
	good := mtlstest.NewAuthority(t, "Receiver's").Issue("good", nil)
	shown := must.Get(tls.X509KeyPair([]byte(good.Chain), []byte(good.Key)))(t)
	r := mtlstest.Receive(t, &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequestClientCert}, nil)
	guarded := egress.NewTransport(egress.Policy{}, egress.Options{Certificate: &shown})
	result := NewSender(showing(t, r, nil), Options{}).Send(t.Context(), requestVia(t, r.URL, guarded))
	assert.True(t, result.FailureReason == delivery.FailureBlocked && r.Connections.Load() <= 0,
		"got %+v after %d connections", result, r.Connections.Load())
}

// A refused certificate is named, with the authority that is missing and what to do.
func TestCertificateIsNamed(t *testing.T) {
	t.Parallel()
	known, other := mtlstest.NewAuthority(t, "Known Root"), mtlstest.NewAuthority(t, "Other Root")
	between, between2 := other.Below("Intermediate of Other Root"), known.Below("Intermediate of Known Root")
	for name, test := range map[string]struct {
		host  string // in the certificate
		ended bool
		by    *mtlstest.Authority
		chain []*mtlstest.Authority
		want  []string
	}{
		"another authority": {"127.0.0.1", false, other, nil, []string{
			`the certificate of "127.0.0.1" (issuer "Other Root", valid from `,
			`is signed by "Other Root", which is not known here`, "CARILLON_EGRESS_CA",
		}},
		"its root is sent": {"127.0.0.1", false, other, []*mtlstest.Authority{other}, []string{
			`is of the authority "Other Root", which is not known here`,
		}},
		"an intermediate": {"127.0.0.1", false, between, []*mtlstest.Authority{between}, []string{
			`is signed by "Other Root", which`,
		}},
		"none is sent": {"127.0.0.1", false, between2, nil, []string{
			`is signed by "Intermediate of Known Root"`, "send its certificate along",
		}},
		"another name": {"shop.example", false, known, nil, []string{`is for shop.example, and not for 127.0.0.1`}},
		"a line feed":  {"shop\nTLS", false, known, nil, []string{"is for shop\uFFFDTLS, and not for 127.0.0.1"}},
		"expired":      {"127.0.0.1", true, known, nil, []string{`of "127.0.0.1"`, "is not valid now: renew it"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			pair := test.by.Issue(test.host, func(c *x509.Certificate) {
				c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
				if address := net.ParseIP(test.host); address != nil {
					c.IPAddresses = []net.IP{address}
				} else {
					c.DNSNames = []string{test.host}
				}
				if test.ended {
					c.NotBefore, c.NotAfter = time.Now().Add(-72*time.Hour), time.Now().Add(-48*time.Hour)
				}
			})
			own := mtlstest.PEM("CERTIFICATE", pair.Leaf.Raw)
			shown := must.Get(tls.X509KeyPair([]byte(own), []byte(pair.Key)))(t)
			for _, one := range test.chain {
				shown.Certificate = append(shown.Certificate, one.Own.Raw)
			}
			server := httptest.NewUnstartedServer(status(200))
			server.TLS = &tls.Config{Certificates: []tls.Certificate{shown}, MinVersion: tls.VersionTLS12}
			server.Config.ErrorLog = log.New(io.Discard, "", 0)
			server.StartTLS()
			t.Cleanup(server.Close)
			sender := NewSender(egress.NewTransport(loopback, egress.Options{RootCAs: known.Pool()}), Options{})
			got := sender.Probe(t.Context(), nil, server.URL)
			assert.True(t, got.FailureReason == "tls" && strings.HasPrefix(got.ErrorMessage, "TLS: the certificate of "),
				"%s: %s", got.FailureReason, got.ErrorMessage)
			for _, want := range test.want {
				assert.True(t, strings.Contains(got.ErrorMessage, want), "%q does not say %q", got.ErrorMessage, want)
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
	assert.True(t, got.FailureReason == "timeout" && strings.HasPrefix(got.ErrorMessage, want),
		"%s: %s", got.FailureReason, got.ErrorMessage)
}
