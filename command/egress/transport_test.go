package egress

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"carillon/aggregates/delivery"
	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

var loopback = Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}

type answer struct {
	status                int
	proto, location, body string
}

// client follows no redirects.
func client(transport http.RoundTripper) *http.Client {
	return &http.Client{
		Transport:     transport,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
}

func get(t *testing.T, client *http.Client, url string) (answer, error) {
	t.Helper()
	req := must.Get(http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody))(t)
	resp, err := client.Do(req)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return answer{resp.StatusCode, resp.Proto, resp.Header.Get("Location"), string(body)}, err
}

func roots(server *httptest.Server) *x509.CertPool {
	pool := x509.NewCertPool()
	pool.AddCert(server.Certificate())
	return pool
}

// countingListener counts the connections that reach a server.
type countingListener struct {
	net.Listener
	accepted atomic.Int64
}

func (l *countingListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err == nil {
		l.accepted.Add(1)
	}
	return conn, err
}

func startServer(t *testing.T, handler http.Handler) (*httptest.Server, *countingListener) {
	t.Helper()
	server := httptest.NewUnstartedServer(handler)
	listener := &countingListener{Listener: server.Listener}
	server.Listener = listener
	server.Config.ErrorLog = log.New(io.Discard, "", 0) // refused handshakes are expected
	server.StartTLS()
	t.Cleanup(server.Close)
	return server, listener
}

func hello(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") }

// The name is public when the URL is written and points to loopback when the request goes out. The transport must
// notice, and no connection may be made.
func TestRebindingIsStopped(t *testing.T) {
	t.Parallel()
	server, listener := startServer(t, http.HandlerFunc(hello))
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	names := startNameServer(t, map[string][][]netip.Addr{
		"rebind.example": {addrs("8.8.8.8"), addrs("127.0.0.1")},
	})
	target := "https://rebind.example:" + port + "/"
	must.Get((Guard{Resolver: names.resolver()}).CheckURL(t.Context(), "config.url", target))(t)
	options := Options{Resolver: names.resolver(), RootCAs: roots(server)}
	transport := NewTransport(Policy{}, options)
	defer transport.CloseIdleConnections()
	_, err := get(t, client(transport), target)
	assert.True(t, errors.Is(err, ErrBlocked) && Classify(err) == delivery.FailureBlocked,
		"got %v, want a blocked address", err)
	assert.Equal(t, names.lookups("rebind.example"), 2, "look-ups, want one at write time and one at dial time")
	assert.Equal(t, listener.accepted.Load(), 0, "connections reached loopback")

	// The control: with loopback opened the same request arrives, so it was the guard that stopped it.
	opened := NewTransport(loopback, options)
	defer opened.CloseIdleConnections()
	opened.TLSClientConfig.ServerName = "example.com" // the test certificate's name
	assert.Equal(t, must.Get(get(t, client(opened), target))(t).body, "hello", "control")
}

func TestSpelledAddressesAreBlockedAtDial(t *testing.T) {
	t.Parallel()
	_, listener := startServer(t, http.HandlerFunc(hello))
	_, port, _ := net.SplitHostPort(listener.Addr().String())
	names := startNameServer(t, nil)
	transport := NewTransport(Policy{}, Options{Resolver: names.resolver()})
	for _, host := range []string{
		"127.0.0.1", "127.1", "0x7f.1", "2130706433", "0177.0.0.1", "0", "①②⑦.⓪.⓪.①", "127。0。0。1", "localhost",
		"localhost.", "a.localhost", "[::1]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "[64:ff9b::7f00:1]",
	} {
		_, err := get(t, client(transport), "https://"+host+":"+port+"/")
		assert.Equal(t, Classify(err), delivery.FailureBlocked, "%s: %v", host, err)
	}
	if _, err := get(t, client(transport), "https://383.0.0.1:"+port+"/"); Classify(err) != delivery.FailureDNS {
		t.Errorf("a number that is no address: %v", err)
	}
	assert.Equal(t, listener.accepted.Load(), 0, "connections reached loopback")
}

func TestControlKnowsOnlyTCP(t *testing.T) {
	t.Parallel()
	for _, test := range []struct{ network, address string }{
		{"udp4", "8.8.8.8:53"}, {"unix", "/run/x.sock"}, {"tcp4", "nonsense"}, {"tcp4", "10.0.0.1:443"},
		{"tcp6", "[fe80::1%lo]:443"},
	} {
		assert.True(t, (Policy{}).control(t.Context(), test.network, test.address, nil) != nil,
			"%s %s passed", test.network, test.address)
	}
	must.OK(t, (Policy{}).control(t.Context(), "tcp6", "[2606:4700::1]:443", nil))
}

func TestTransportLeavesRedirectsAndProxies(t *testing.T) {
	t.Setenv("HTTPS_PROXY", "http://127.0.0.1:1") // not parallel: it sets the environment
	t.Setenv("HTTP_PROXY", "http://127.0.0.1:1")
	var seen atomic.Value
	server, listener := startServer(t, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		seen.Store(r.Header.Clone())
		http.Redirect(w, r, "/elsewhere", http.StatusFound)
	}))
	transport := NewTransport(loopback, Options{RootCAs: roots(server)})
	defer transport.CloseIdleConnections()
	for range 5 {
		got := must.Get(get(t, client(transport), server.URL))(t)
		assert.True(t, got.status == http.StatusFound && got.location == "/elsewhere", "got %+v", got)
	}
	header, _ := seen.Load().(http.Header)
	assert.True(t, header.Get("Accept-Encoding") == "", "asked for compression: %v", header)
	assert.Equal(t, listener.accepted.Load(), 1, "connections for 5 requests")
}

func TestHTTP1IsSpoken(t *testing.T) {
	t.Parallel()
	server := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)
	transport := NewTransport(loopback, Options{RootCAs: roots(server)})
	t.Cleanup(transport.CloseIdleConnections)
	assert.Equal(t, must.Get(get(t, client(transport), server.URL))(t).proto, "HTTP/1.1", "proto")
}

func TestClassify(t *testing.T) {
	t.Parallel()
	server, listener := startServer(t, http.HandlerFunc(hello))
	old := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	// #nosec G402 -- the server to be refused
	old.TLS = &tls.Config{MinVersion: tls.VersionTLS10, MaxVersion: tls.VersionTLS11}
	old.StartTLS()
	t.Cleanup(old.Close)
	plain := httptest.NewServer(http.HandlerFunc(hello))
	t.Cleanup(plain.Close)
	demanding := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	demanding.TLS = &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAnyClientCert}
	demanding.StartTLS()
	t.Cleanup(demanding.Close)
	names := startNameServer(t, map[string][][]netip.Addr{"other.test": {addrs("127.0.0.1")}})
	_, port, _ := net.SplitHostPort(listener.Addr().String())

	silent := listen(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
	hangup := listen(t, func(net.Conn) {})

	pool := roots(server)
	for _, extra := range []*httptest.Server{old, demanding} {
		pool.AddCert(extra.Certificate())
	}
	trusting := Options{Resolver: names.resolver(), RootCAs: pool}
	for _, test := range []struct {
		name, url string
		policy    Policy
		options   Options
		want      delivery.Failure
	}{
		{"answers", server.URL, loopback, trusting, ""},
		{"blocked", server.URL, Policy{}, trusting, delivery.FailureBlocked},
		{"unknown authority", server.URL, loopback, Options{RootCAs: x509.NewCertPool()}, delivery.FailureTLS},
		{"certificate of another name", "https://other.test:" + port, loopback, trusting, delivery.FailureTLS},
		{"old protocol", old.URL, loopback, trusting, delivery.FailureTLS},
		{"client certificate wanted", demanding.URL, loopback, trusting, delivery.FailureTLS},
		{"plain HTTP", "https" + strings.TrimPrefix(plain.URL, "http"), loopback, trusting, delivery.FailureTLS},
		{"no such name", "https://missing.test/", loopback, trusting, delivery.FailureDNS},
		{"handshake timeout", "https://" + silent.Addr().String(), loopback, trusting, delivery.FailureTimeout},
		{"hang up", "https://" + hangup.Addr().String(), loopback, trusting, delivery.FailureConnection},
		{"refused", "https://127.0.0.1:1", loopback, trusting, delivery.FailureConnection},
	} {
		transport := NewTransport(test.policy, test.options)
		if test.want == delivery.FailureTimeout {
			transport.TLSHandshakeTimeout = 20 * time.Millisecond
		}
		_, err := get(t, client(transport), test.url)
		assert.Equal(t, Classify(err), test.want, "%s … for %v", test.name, err)
		transport.CloseIdleConnections()
	}
	assert.Equal(t, Classify(context.DeadlineExceeded), delivery.FailureTimeout, "deadline")
}

// The failure is the receiver's alert, also if it came, and closed the connection, before anything was written.
func TestTransport_earlyAlert(t *testing.T) {
	t.Parallel()
	demanding := httptest.NewUnstartedServer(http.HandlerFunc(hello))
	demanding.TLS = &tls.Config{MinVersion: tls.VersionTLS13, ClientAuth: tls.RequireAnyClientCert}
	demanding.StartTLS()
	t.Cleanup(demanding.Close)
	dial := NewTransport(loopback, Options{RootCAs: roots(demanding)}).DialTLSContext
	conn := must.Get(dial(t.Context(), "tcp", demanding.Listener.Addr().String()))(t)
	_, err := conn.Read(make([]byte, 1))
	assert.Equal(t, Classify(err), delivery.FailureTLS, "read: %v", err)
	must.OK(t, conn.Close())
	_, err = conn.Write([]byte("GET / HTTP/1.1"))
	assert.Equal(t, Classify(err), delivery.FailureTLS, "write: %v", err)
}

// listen answers each connection with one call and closes it.
func listen(t *testing.T, answer func(net.Conn)) net.Listener {
	t.Helper()
	listener := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go func() {
				defer func() { _ = conn.Close() }()
				answer(conn)
			}()
		}
	}()
	return listener
}

// Transports that share a bound close what is idle, of any of them, before they have too many connections open.
func TestFilesBoundIdleConnections(t *testing.T) {
	t.Parallel()
	const most, transports, hosts = 4, 3, 5
	files := NewFiles(most)
	var all []*http.Transport
	for range transports {
		transport := NewTransport(loopback, Options{Files: files})
		all = append(all, transport)
		t.Cleanup(transport.CloseIdleConnections)
	}
	for range hosts {
		server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}))
		t.Cleanup(server.Close)
		for _, transport := range all {
			idle := make(chan error, 1) // a connection is put back a little after its answer was read
			ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) { idle <- err }})
			request := must.Get(http.NewRequestWithContext(ctx, http.MethodGet, server.URL, http.NoBody))(t)
			answer, err := transport.RoundTrip(request)
			must.OK(t, err)
			must.Get(io.Copy(io.Discard, answer.Body))(t)
			_ = answer.Body.Close()
			<-idle // or about to be closed
			awaitOpened(t, files, most)
		}
	}
	for _, transport := range all {
		transport.CloseIdleConnections()
	}
	awaitOpened(t, files, 0)
}

// A panic while a connection is made releases its file.
func TestFilesAreGivenBackAfterAPanic(t *testing.T) {
	t.Parallel()
	files := NewFiles(1)
	ctx := httptrace.WithClientTrace(t.Context(),
		&httptrace.ClientTrace{ConnectStart: func(string, string) { panic("planted") }})
	conn, err := NewTransport(loopback, Options{Files: files}).DialContext(ctx, "tcp", "127.0.0.1:9")
	if _, panicked := errors.AsType[*panics.Error](err); conn != nil || !panicked || opened(files) != 0 {
		t.Errorf("got %v, %v; %d connections are open", conn, err, opened(files))
	}
}

// awaitOpened waits until at most a number of connections is open: others close by themselves.
func awaitOpened(t *testing.T, files *Files, most int) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); opened(files) > most; <-tick.C {
		if time.Now().After(deadline) {
			t.Fatalf("%d connections are open, want %d at most", opened(files), most)
		}
	}
}

func opened(f *Files) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}

// A write after the other side has closed is dropped, its answer is read, and no request is begun afterwards.
func TestConnWriteAfterEarlyClose(t *testing.T) {
	t.Parallel()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer func() { _ = listener.Close() }()
	dialled := must.Get(net.Dial("tcp", listener.Addr().String()))(t)
	conn := &Conn{Conn: dialled}
	defer func() { _ = conn.Close() }()
	accepted := must.Get(listener.Accept())(t)
	conn.WasIdle()
	if _, err := conn.Write([]byte("request")); err != nil || conn.Unused() {
		t.Fatalf("unused: %t, %v", conn.Unused(), err)
	}
	must.Get(io.WriteString(accepted, "answer"))(t)
	if err := accepted.Close(); err != nil { // with unread data: the connection is reset
		t.Fatal(err)
	}
	const piece = 64 << 10
	for written := 0; !conn.ended.Load(); written++ {
		n, err := conn.Write(make([]byte, piece))
		must.True(t, n == piece && err == nil && written <= 1<<16, "piece %d: %d, %v", written, n, err)
	}
	answer := make([]byte, 6)
	if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != "answer" {
		t.Errorf("%q, %v", answer, err)
	}
	conn.WasIdle()
	for range 2 {
		if _, err := conn.Write([]byte("request")); !errors.Is(err, errClosedWhileIdle) || !conn.Unused() {
			t.Errorf("unused: %t, %v", conn.Unused(), err)
		}
	}
}
