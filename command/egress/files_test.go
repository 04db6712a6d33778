package egress

import (
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"testing"
	"time"

	"carillon/eventstore/panics"
	"carillon/eventstore/storetest/must"
)

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
			answer := must.Get(transport.RoundTrip(request))(t)
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
