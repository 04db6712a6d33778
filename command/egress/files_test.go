package egress

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"
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
		for i, transport := range all {
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			answer, err := transport.RoundTrip(request)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := io.Copy(io.Discard, answer.Body); err != nil {
				t.Fatal(err)
			}
			_ = answer.Body.Close()
			if open := opened(files); open > most {
				t.Errorf("transport %d: %d connections are open, want %d at most", i, open, most)
			}
		}
	}
	for _, transport := range all {
		transport.CloseIdleConnections()
	}
	if open := opened(files); open != 0 {
		t.Errorf("%d connections count that are closed", open)
	}
}

func opened(f *Files) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.open
}
