package front_test

import (
	"bufio"
	"context"
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
