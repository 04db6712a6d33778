package webhook

import (
	"bufio"
	"context"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/eventstore/storetest/assert"
)

// pipeSender talks to an endpoint over an in-memory connection, so that a synctest clock sees that all wait.
func pipeSender(t *testing.T, opts Options, serve func(net.Conn, *http.Request)) *Sender {
	t.Helper()
	var served sync.WaitGroup
	transport := &http.Transport{DialTLSContext: func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		served.Go(func() {
			defer func() { _ = far.Close() }()
			reader := bufio.NewReader(far)
			request, err := http.ReadRequest(reader)
			if err != nil {
				return
			}
			if _, err := io.Copy(io.Discard, request.Body); err != nil {
				return
			}
			serve(far, request)
			_, _ = io.Copy(io.Discard, reader) // until the other end hangs up
		})
		return near, nil
	}}
	t.Cleanup(func() {
		transport.CloseIdleConnections()
		served.Wait()
	})
	return NewSender(transport, opts)
}

func silence(net.Conn, *http.Request) {}

func TestSendTimesOut(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		opts    Options
		want    time.Duration
		message string
	}{
		{Options{}, 30 * time.Second, "timeout: no answer within 30s"},
		{Options{Timeout: 90 * time.Second}, 90 * time.Second, "timeout: no answer within 1m30s"},
	} {
		synctest.Test(t, func(t *testing.T) {
			sender := pipeSender(t, test.opts, silence)
			result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
			want := Result{FailureReason: "timeout", ErrorMessage: test.message, Duration: test.want}
			assert.Equal(t, result, want, "result")
		})
	}
}

func TestSendAborts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, silence)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(3*time.Second, cancel)
		result := sender.Send(ctx, requestTo(t, "https://example.com/"))
		assert.True(t, result.Aborted && !result.OK() && result.Duration == 3*time.Second, "got %+v", result)
	})
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, silence)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		result := sender.Send(ctx, requestTo(t, "https://example.com/"))
		assert.True(t, !result.Aborted && result.FailureReason == "timeout" && result.Duration == 2*time.Second,
			"a caller's deadline is a timeout: %+v", result)
	})
}

// The status decides; a body that drips is cut short.
func TestSendDoesNotWaitForDrippingBodies(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		delay, want time.Duration // until the status line; until the result
	}{{0, 5 * time.Second}, {28 * time.Second, 30 * time.Second}} {
		synctest.Test(t, func(t *testing.T) {
			sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
				<-time.After(test.delay)
				_, _ = io.WriteString(conn, "HTTP/1.1 202 Accepted\r\nContent-Length: 1000\r\n\r\n")
				for range 1000 {
					if _, err := io.WriteString(conn, "x"); err != nil {
						return
					}
					<-time.After(1100 * time.Millisecond)
				}
			})
			result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
			assert.True(t, result.OK() && result.StatusCode == 202 && result.Duration == test.want && result.Body != "" &&
				len(result.Body) <= 5, "got %+v", result)
		})
	}
}

func TestRetryAfterDateCountsFromTheAnswer(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
		sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
			<-time.After(10 * time.Second)
			_, _ = io.WriteString(conn, "HTTP/1.1 503 Service Unavailable\r\nRetry-After: Sat, 21 Nov 2026 12:01:00 GMT\r\n"+
				"Content-Length: 0\r\n\r\n")
		})
		result := sender.Send(t.Context(), Request{
			URL:     "https://example.com/",
			Secrets: []Secret{mint(t)},
			ID:      "d",
			Body:    []byte("{}"),
			Now:     now,
		})
		assert.Equal(t, result.RetryAfter, 50*time.Second, "got %+v", result)
	})
}

func TestSwitchingProtocolsIsNoAnswerToWaitFor(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		sender := pipeSender(t, Options{}, func(conn net.Conn, _ *http.Request) {
			_, _ = io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n")
		})
		result := sender.Send(t.Context(), requestTo(t, "https://example.com/"))
		assert.True(t, result.FailureReason == "http_status" && result.StatusCode == 101 && result.Duration == 0,
			"got %+v", result)
	})
}

func TestProbeTimesOut(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		got := pipeSender(t, Options{}, silence).Probe(t.Context(), nil, "https://example.com/")
		want := Reachability{
			ResponseTime:  5 * time.Second,
			FailureReason: "timeout",
			ErrorMessage:  "timeout: no answer within 5s",
		}
		assert.Equal(t, got, want, "got")
	})
}

func TestProbe(t *testing.T) {
	t.Parallel()
	for _, code := range []int{200, 302, 404, 405, 410, 500, 503} {
		e := startEndpoint(t, status(code))
		got := e.sender(t, loopback, Options{Version: "9"}).Probe(t.Context(), nil, e.URL+"/hook")
		assert.True(t, got.ResponseTime > 0, "%d: no time: %+v", code, got)
		if want := (Reachability{Reachable: true, StatusCode: code, ResponseTime: got.ResponseTime}); got != want {
			t.Errorf("%d: %+v", code, got)
		}
		request := e.requests()[0]
		assert.True(t, request.method == http.MethodHead && len(request.body) == 0 &&
			request.header.Get("User-Agent") == "Carillon/9" && request.header.Get("Webhook-Signature") == "",
			"sent %+v", request)
	}
}

func TestProbeIsGuarded(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, status(200))
	got := e.sender(t, egress.Policy{}, Options{}).Probe(t.Context(), nil, e.URL)
	assert.True(t, !got.Reachable && got.FailureReason == delivery.FailureBlocked && len(e.requests()) == 0 &&
		e.connections.Load() == 0, "got %+v", got)
	assert.Equal(t, (Reachability{ResponseTime: 1999 * time.Microsecond}).ResponseTimeMs(), 1, "ms")
}

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
		assert.True(t, result.FailureReason == delivery.FailureConnection && result.StatusCode == 0 &&
			strings.HasPrefix(result.ErrorMessage, "malformed answer: ") && !strings.Contains(result.ErrorMessage, "net/http"),
			"%.40q: %+v", answer, result)
		found := sender.Probe(t.Context(), nil, e.URL)
		assert.True(t, !found.Reachable && found.StatusCode == 0, "%.40q: %+v", answer, found)
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
		assert.True(t, result.FailureReason == test.reason && result.ErrorMessage == test.message,
			"%s: %q, %q", test.name, result.FailureReason, result.ErrorMessage)
		shown := fmt.Sprintf("%+v", result)
		assert.True(t, !strings.Contains(shown, hidden) && !strings.Contains(shown, secret.Reveal()[6:]),
			"%s: reveals a secret: %s", test.name, shown)
	}
}
