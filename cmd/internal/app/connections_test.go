package app

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"carillon/command/egress"
)

// Ten destinations at one host, as those of one vendor's customers are, have 640 requests in flight. All their
// connections are kept for later requests: while only 512 were, 128 were opened each time, and a delivery cost a third
// more.
func TestConnectionsToSharedHostAreKept(t *testing.T) {
	t.Parallel()
	const atOnce = 640
	var (
		opened, here atomic.Int64
		round        = make(chan struct{})
		full         = make(chan struct{}, 1)
	)
	receiver := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		wait := round
		if here.Add(1) == atOnce {
			full <- struct{}{}
		}
		select {
		case <-wait:
		case <-t.Context().Done():
		}
	}))
	receiver.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			opened.Add(1)
		}
	}
	receiver.Start()
	t.Cleanup(receiver.Close)

	a := &App{}
	policy, options, err := a.deliveryEgress()
	if err != nil {
		t.Fatal(err)
	}
	policy.Allow = []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}
	options.IdleConnTimeout = time.Hour // a busy machine may need longer than its four seconds
	transport := egress.NewTransport(policy, options)
	t.Cleanup(transport.CloseIdleConnections)
	failed := make(chan error, 3*atOnce)
	for range 3 {
		var sending, kept sync.WaitGroup
		kept.Add(atOnce) // a connection is put back a little after its answer was read
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{PutIdleConn: func(err error) {
			if err != nil {
				t.Error(err)
			}
			kept.Done()
		}})
		for range atOnce {
			sending.Go(func() {
				request, err := http.NewRequestWithContext(ctx, http.MethodPost, receiver.URL, http.NoBody)
				if err != nil {
					t.Error(err)
					return
				}
				response, err := transport.RoundTrip(request)
				if err != nil {
					failed <- err
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			})
		}
		select {
		case <-full: // all of them are in flight
		case err := <-failed:
			t.Fatal(err)
		}
		here.Store(0)
		next := make(chan struct{})
		ended := round
		round = next
		close(ended)
		sending.Wait()
		kept.Wait()
	}
	if n := opened.Load(); n != atOnce {
		t.Errorf("%d connections were opened for %d requests at one time", n, atOnce)
	}
}
