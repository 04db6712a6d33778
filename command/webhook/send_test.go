package webhook

import (
	"bytes"
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"carillon/aggregates/delivery"
	"carillon/command/egress"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var loopback = egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

// received is a request as the endpoint saw it.
type received struct {
	method, uri string
	header      http.Header
	body        []byte
}

// endpoint is a TLS server that records what it gets.
type endpoint struct {
	*httptest.Server
	connections atomic.Int64

	mu  sync.Mutex
	got []received
}

func startEndpoint(tb testing.TB, answer http.HandlerFunc) *endpoint {
	tb.Helper()
	e := &endpoint{}
	e.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		e.mu.Lock()
		e.got = append(e.got, received{r.Method, r.RequestURI, r.Header.Clone(), body})
		e.mu.Unlock()
		answer(w, r)
	}))
	e.Config.ErrorLog = log.New(io.Discard, "", 0)
	e.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			e.connections.Add(1)
		}
	}
	e.StartTLS()
	tb.Cleanup(e.Close)
	return e
}

func (e *endpoint) requests() []received {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.got)
}

// sender trusts the endpoint's certificate.
func (e *endpoint) sender(tb testing.TB, policy egress.Policy, opts Options) *Sender {
	tb.Helper()
	pool := x509.NewCertPool()
	pool.AddCert(e.Certificate())
	transport := egress.NewTransport(policy, egress.Options{RootCAs: pool})
	tb.Cleanup(transport.CloseIdleConnections)
	return NewSender(transport, opts)
}

// requestTo is a signed request without headers.
func requestTo(tb testing.TB, url string) Request {
	tb.Helper()
	return Request{
		URL:     url,
		Secrets: []Secret{mint(tb)},
		ID:      "d",
		Body:    []byte("{}"),
	}
}

func status(code int) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(code) }
}

func TestSendIsVerifiable(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "thanks") })
	sender := e.sender(t, loopback, Options{Version: "1.2.3"})
	old, current := mint(t), mint(t)
	body := []byte(`{"id":"e1","data":{"a":"ü"}}`)
	now := time.Now()
	result := sender.Send(t.Context(), Request{
		URL:     e.URL + "/hook/a%20b?x=1",
		Secrets: []Secret{current, old},
		ID:      "d-1",
		Body:    body,
		Now:     now,
		Headers: map[string]string{
			"x-tenant":      "acme",
			"authorization": "Bearer t",
			"Webhook-ID":    "forged",
			"user-agent":    "forged",
			"Host":          "forged",
		},
	})
	must.True(t, result.OK() && result.StatusCode == 200 && result.Body == "thanks" && result.ErrorMessage == "" &&
		!result.Aborted && result.Duration > 0, "got %+v", result)
	got := e.requests()[0]
	assert.True(t, got.method == http.MethodPost && got.uri == "/hook/a%20b?x=1" && bytes.Equal(got.body, body),
		"got %s %s %s", got.method, got.uri, got.body)
	signature := got.header.Get("Webhook-Signature")
	want := http.Header{
		"Accept": {"*/*"}, "Authorization": {"Bearer t"}, "X-Tenant": {"acme"}, "Content-Type": {"application/json"},
		"User-Agent": {"Carillon/1.2.3"}, "Content-Length": {fmt.Sprint(len(body))}, "Webhook-Id": {"d-1"},
		"Webhook-Timestamp": {fmt.Sprint(now.Unix())}, "Webhook-Signature": {signature},
	}
	assert.Same(t, got.header, want)
	assert.True(t, strings.Count(signature, "v1,") == 2 && strings.Count(signature, " ") == 1, "signature %q", signature)
	for _, secret := range []Secret{old, current} {
		verifier := must.Get(standardwebhooks.NewWebhook(secret.Reveal()))(t)
		must.OK(t, verifier.Verify(got.body, got.header))
	}
}

func TestSendJudgesStatus(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, func(w http.ResponseWriter, r *http.Request) {
		var code int
		_, err := fmt.Sscanf(r.URL.Path, "/%d", &code)
		assert.True(t, err == nil, "%v", err)
		w.Header().Set("Location", "/200")
		w.Header().Set("Retry-After", "60")
		w.WriteHeader(code)
	})
	sender := e.sender(t, loopback, Options{})
	sent := 0
	for _, test := range []struct {
		code       int
		reason     delivery.Failure
		message    string
		retryAfter time.Duration
	}{
		{200, "", "", 0},
		{201, "", "", 0},
		{204, "", "", 0},
		{299, "", "", 0},
		{301, "redirect", "endpoint answered 301 Moved Permanently to /200; redirects are not followed", 0},
		{304, "redirect", "endpoint answered 304 Not Modified to /200; redirects are not followed", 0},
		{307, "redirect", "endpoint answered 307 Temporary Redirect to /200; redirects are not followed", 0},
		{400, "http_status", "endpoint answered 400 Bad Request", 0},
		{404, "http_status", "endpoint answered 404 Not Found", 0},
		{410, "gone", "endpoint answered 410 Gone: it wants no more deliveries", 0},
		{429, "http_status", "endpoint answered 429 Too Many Requests", time.Minute},
		{500, "http_status", "endpoint answered 500 Internal Server Error", 0},
		{502, "http_status", "endpoint answered 502 Bad Gateway", time.Minute},
		{503, "http_status", "endpoint answered 503 Service Unavailable", time.Minute},
		{504, "http_status", "endpoint answered 504 Gateway Timeout", time.Minute},
		{599, "http_status", "endpoint answered 599", 0},
	} {
		result := sender.Send(t.Context(), requestTo(t, fmt.Sprintf("%s/%d", e.URL, test.code)))
		sent++
		want := Result{
			StatusCode:    test.code,
			FailureReason: test.reason,
			ErrorMessage:  test.message,
			RetryAfter:    test.retryAfter,
			Duration:      result.Duration,
			Kept:          true,
		}
		assert.Equal(t, result.Headers == "", test.reason == "", "%d: headers %q", test.code, result.Headers)
		want.Headers = result.Headers
		if diff := cmp.Diff(want, result); diff != "" {
			t.Errorf("%d: %s", test.code, diff)
		}
		assert.Equal(t, result.OK(), test.reason == "", "%d: OK", test.code)
	}
	assert.Equal(t, len(e.requests()), sent, "requests for attempts: a redirect was followed")
	assert.Equal(t, e.connections.Load(), 1, "connections")
}

// The next sender learns whether it opens a connection. An answer that is too long is not read further, so its
// connection can't be used again.
func TestSendReportsKeptConnection(t *testing.T) {
	t.Parallel()
	abort := func(w http.ResponseWriter, _ *http.Request) {
		conn, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_ = conn.Close()
	}
	const long = 8 << 20 // more than sockets hold
	for name, tt := range map[string]struct {
		answer http.HandlerFunc
		kept   bool
	}{
		"an answer without body": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) },
			true},
		"a failure with a body": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, "no", http.StatusInternalServerError)
		}, true},
		"more than is stored": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = io.WriteString(w, strings.Repeat("ö", 60_000))
		}, true},
		"it hangs up": {abort, false},
		"it says that it closes": {func(w http.ResponseWriter, _ *http.Request) { w.Header().Set("Connection", "close") },
			false},
		"a long body": {func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", strconv.Itoa(long))
			n, err := io.CopyN(w, zeros{}, long)
			assert.True(t, err != nil, "%d bytes were read", n)
		}, false},
		"an endless body": {func(w http.ResponseWriter, _ *http.Request) {
			n, err := io.CopyN(w, zeros{}, long)
			assert.True(t, err != nil, "%d bytes were read", n)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := startEndpoint(t, tt.answer)
			sender := e.sender(t, loopback, Options{})
			for range 2 {
				result := sender.Send(t.Context(), requestTo(t, e.URL))
				assert.Equal(t, result.Kept, tt.kept, "kept")
			}
			want := int64(2)
			if tt.kept {
				want = 1
			}
			assert.Equal(t, e.connections.Load(), want, "connections")
		})
	}
}

// Where as many connections to a host are idle as may be, the next request does not open one.
func TestClosedSpareConnectionOpensNone(t *testing.T) {
	t.Parallel()
	const requests = 3
	e := startEndpoint(t, together(requests, func(http.ResponseWriter, *http.Request) {}))
	sender := e.sender(t, loopback, Options{})
	transport, ok := sender.transport.(*http.Transport)
	must.True(t, ok, "not a transport of net/http")
	transport.MaxIdleConnsPerHost = 1
	var sent sync.WaitGroup
	for range requests {
		sent.Go(func() {
			result := sender.Send(t.Context(), requestTo(t, e.URL))
			assert.True(t, result.Kept, "%+v", result)
		})
	}
	sent.Wait()
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

// idleConnections opens n connections to the endpoint, and leaves them idle.
func (e *endpoint) idleConnections(t *testing.T, sender *Sender, n int) {
	t.Helper()
	var sent sync.WaitGroup
	for i := range n {
		sent.Go(func() {
			if result := sender.Send(t.Context(), Request{
				URL:     e.URL,
				Secrets: []Secret{mint(t)},
				ID:      fmt.Sprint("idle-", i),
				Body:    []byte("{}"),
			}); !result.OK() {
				t.Errorf("%+v", result)
			}
		})
	}
	sent.Wait()
	must.Equal(t, e.connections.Load(), int64(n), "connections, want %d", n)
}

// together answers requests once n of them are there, so that each has its own connection.
func together(n int, then http.HandlerFunc) http.HandlerFunc {
	var arrived sync.WaitGroup
	arrived.Add(n)
	var calls atomic.Int64
	return func(w http.ResponseWriter, r *http.Request) {
		if calls.Add(1) > int64(n) {
			then(w, r)
			return
		}
		arrived.Done()
		arrived.Wait()
	}
}

// An attempt is one request, however many idle connections there are, and whatever headers the destination has.
func TestDroppedRequestIsNotSentAgain(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"", "Idempotency-Key", "idempotency-key", "X-Idempotency-Key"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const idle = 8
			e := startEndpoint(t, together(idle, func(w http.ResponseWriter, _ *http.Request) {
				conn, _, err := http.NewResponseController(w).Hijack()
				if err != nil {
					t.Error(err)
					return
				}
				_ = conn.Close()
			}))
			sender := e.sender(t, loopback, Options{})
			e.idleConnections(t, sender, idle)
			request := Request{
				URL:     e.URL,
				Secrets: []Secret{mint(t)},
				ID:      "dropped",
				Body:    []byte("{}"),
				Headers: map[string]string{},
			}
			if name != "" {
				request.Headers[name] = "own"
			}
			result := sender.Send(t.Context(), request)
			assert.True(t, result.FailureReason == delivery.FailureConnection && result.StatusCode == 0,
				"%+v, want a failure of the connection", result)
			got := e.requests()
			assert.True(t, len(got) == idle+1, "%d requests instead of 1", len(got)-idle)
			if last := got[len(got)-1].header; name != "" && last.Get(name) != "own" {
				t.Errorf("%s did not come: %v", name, last)
			}
		})
	}
}

// The receiver closes what is idle; the next attempt takes no notice.
func TestConnectionsClosedWhileIdleFailNoAttempt(t *testing.T) {
	t.Parallel()
	const idle, rounds = 4, 50
	for range rounds {
		e := startEndpoint(t, together(idle, func(http.ResponseWriter, *http.Request) {}))
		sender := e.sender(t, loopback, Options{})
		e.idleConnections(t, sender, idle)
		e.CloseClientConnections()
		result := sender.Send(t.Context(), requestTo(t, e.URL))
		must.True(t, result.OK(), "%+v", result)
		must.Equal(t, len(e.requests())-idle, 1, "requests")
	}
}

// seenClosed is a connection that says when net/http has let it go.
type seenClosed struct {
	*net.TCPConn

	once   sync.Once
	closed chan struct{}
}

func (c *seenClosed) Close() error {
	err := c.TCPConn.Close()
	c.once.Do(func() { close(c.closed) })
	return err
}

// The receiver closes an idle connection in the very moment in which an attempt has taken it: net/http has seen the end
// before it was given the request, and refuses to send a POST again, of which it has written nothing. Another
// connection is taken, and the attempt does not fail.
func TestConnectionEndsWhileTaken_noFailure(t *testing.T) {
	t.Parallel()
	e := startEndpoint(t, func(http.ResponseWriter, *http.Request) {})
	sender := e.sender(t, loopback, Options{})
	transport, ok := sender.transport.(*http.Transport)
	must.True(t, ok, "not a transport of net/http")
	var last *seenClosed
	dial := transport.DialContext
	transport.DialContext = func(ctx context.Context, network, address string) (net.Conn, error) {
		conn, err := dial(ctx, network, address)
		if err != nil {
			return nil, err
		}
		guarded, isGuarded := conn.(*egress.Conn)
		if !isGuarded {
			return nil, errors.New("not a connection of egress")
		}
		tcp, isTCP := guarded.Conn.(*net.TCPConn)
		if !isTCP {
			return nil, errors.New("not TCP")
		}
		last = &seenClosed{TCPConn: tcp, closed: make(chan struct{})}
		guarded.Conn = last
		return guarded, nil
	}
	reused := 0
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{GotConn: func(got httptrace.GotConnInfo) {
		if got.Reused {
			reused++
			e.CloseClientConnections()
			<-last.closed
		}
	}})
	const rounds = 20 // which of two channels net/http looks at first is chance
	for round := range rounds {
		result := sender.Send(ctx, requestTo(t, e.URL))
		must.True(t, result.OK(), "round %d: %+v", round, result)
	}
	if got := len(e.requests()); got != rounds || reused != rounds-1 {
		t.Errorf("%d requests on %d connections that were taken twice, want %d on %d", got, reused, rounds, rounds-1)
	}
}
