package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync"
	"testing"

	"carillon/command/egress"
)

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
	if !ok {
		t.Fatal("not a transport of net/http")
	}
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
		if !result.OK() {
			t.Fatalf("round %d: %+v", round, result)
		}
	}
	if got := len(e.requests()); got != rounds || reused != rounds-1 {
		t.Errorf("%d requests on %d connections that were taken twice, want %d on %d", got, reused, rounds, rounds-1)
	}
}
