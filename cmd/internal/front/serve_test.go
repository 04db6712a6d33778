package front_test

import (
	"bufio"
	"context"
	"crypto/tls"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"carillon/cmd/internal/front"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// pipes is a listener whose connections are in memory.
type pipes struct {
	taken  chan net.Conn
	closed chan struct{}
}

func (p *pipes) Accept() (net.Conn, error) {
	select {
	case conn := <-p.taken:
		return conn, nil
	case <-p.closed:
		return nil, net.ErrClosed
	}
}

func (p *pipes) Close() error {
	close(p.closed)
	return nil
}

func (p *pipes) Addr() net.Addr { return &net.TCPAddr{} }

// A client that sends one request after the other over the same connection gets an answer to each of them when the
// server stops, and one of them announces that the connection closes.
func TestServe_announcesClosingWhenBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		listener := &pipes{taken: make(chan net.Conn), closed: make(chan struct{})}
		ctx, stop := context.WithCancel(t.Context())
		defer stop()
		ended := make(chan error, 1)
		handler := http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "yes") })
		go func() { ended <- front.Serve(ctx, listener, handler, nil, nil, slog.New(slog.DiscardHandler)) }()
		client, server := net.Pipe()
		listener.taken <- server
		answers := bufio.NewReader(client)
		for _, last := range []bool{false, true} {
			if last {
				stop()
				time.Sleep(10 * time.Millisecond) // by the clock of the bubble
			}
			must.Get(io.WriteString(client, "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n"))(t)
			answer, err := http.ReadResponse(answers, nil)
			must.OK(t, err)
			body, err := io.ReadAll(answer.Body)
			_ = answer.Body.Close()
			assert.True(t, err == nil && string(body) == "yes" && answer.Close == last,
				"answered %q (%v), closes: %t, want %t", body, err, answer.Close, last)
		}
		if _, err := answers.ReadByte(); err == nil || !strings.Contains(err.Error(), "EOF") {
			t.Errorf("the connection is still open: %v", err)
		}
		must.OK(t, <-ended)
	})
}

// Callers that say nothing, or nothing more, make room for those with a request, which are never closed.
func TestBounded_evictsSilent(t *testing.T) {
	t.Parallel()
	cert, key := files(t, "one.example")
	certificate := must.Get(front.ReadCertificate(cert, key, slog.New(slog.DiscardHandler)))(t)
	for name, certificate := range map[string]*front.Certificate{"http": nil, "https": certificate} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			const most = 3
			plain := must.Get((&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0"))(t)
			listener := front.Bound(plain, most)
			began, let := make(chan struct{}), make(chan struct{})
			handler := http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
				if r.URL.Path == "/slow" {
					began <- struct{}{}
					<-let
				}
			})
			ctx, stop := context.WithCancel(t.Context())
			ended := make(chan error, 1)
			go func() {
				ended <- front.Serve(ctx, listener, handler, nil, certificate, slog.New(slog.DiscardHandler))
			}()
			open := func(path string) *bufio.Reader {
				t.Helper()
				conn := dial(t, listener.Addr())
				if certificate != nil {
					//nolint:gosec // the server is this test
					conn = tls.Client(conn, &tls.Config{InsecureSkipVerify: true, MinVersion: tls.VersionTLS12})
				}
				must.Get(io.WriteString(conn, "GET "+path+" HTTP/1.1\r\nHost: h\r\n\r\n"))(t)
				return bufio.NewReader(conn)
			}
			answered := func(r *bufio.Reader) {
				t.Helper()
				answer, err := http.ReadResponse(r, nil)
				must.True(t, err == nil && answer.StatusCode == http.StatusOK, "answered %v, %v", answer, err)
				_ = answer.Body.Close()
			}
			slow := open("/slow")
			<-began
			for range 3 * most { // silent ones, and some between two requests
				dial(t, listener.Addr())
				answered(open("/"))
				n, _, _ := listener.Load()
				assert.True(t, n <= most, "%d connections are open", n)
			}
			_, _, evicted := listener.Load()
			assert.True(t, evicted != 0, "none was closed for others")
			var busy []*bufio.Reader
			for range most - 1 { // all have a request
				busy = append(busy, open("/slow"))
				<-began
			}
			late := make(chan *bufio.Reader)
			go func() { late <- open("/") }() // waits for room, over TLS with its handshake
			close(let)
			for _, r := range append(busy, slow, <-late) {
				answered(r)
			}
			stop()
			must.OK(t, <-ended)
			if n, _, _ := listener.Load(); n > 1 {
				t.Errorf("%d connections are open at the end", n)
			}
		})
	}
}
