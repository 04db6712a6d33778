package mtlstest

import (
	"crypto/tls"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
)

// Receiver is a TLS server that writes down which certificates it is shown. Its own is that of package httptest.
type Receiver struct {
	*httptest.Server
	Connections atomic.Int64 // that were opened

	mu    sync.Mutex
	shown []string
	open  map[net.Conn]struct{}
}

// Receive starts a receiver that asks for certificates as the configuration says. answer may be nil: it says 200.
func Receive(tb testing.TB, config *tls.Config, answer http.HandlerFunc) *Receiver {
	tb.Helper()
	r := &Receiver{open: map[net.Conn]struct{}{}}
	r.Server = httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, got *http.Request) {
		name := ""
		if len(got.TLS.PeerCertificates) > 0 {
			name = got.TLS.PeerCertificates[0].Subject.CommonName
		}
		_, _ = io.Copy(io.Discard, got.Body)
		r.mu.Lock()
		r.shown = append(r.shown, name)
		r.mu.Unlock()
		if answer != nil {
			answer(w, got)
		}
	}))
	r.Config.ErrorLog = log.New(io.Discard, "", 0)
	r.Config.ConnState = func(conn net.Conn, state http.ConnState) {
		r.mu.Lock()
		defer r.mu.Unlock()
		switch state {
		case http.StateNew:
			r.Connections.Add(1)
			r.open[conn] = struct{}{}
		case http.StateClosed, http.StateHijacked:
			delete(r.open, conn)
		case http.StateActive, http.StateIdle:
		}
	}
	r.TLS = config
	r.StartTLS()
	tb.Cleanup(r.Close)
	return r
}

// Shown are the names in the certificates of the requests so far, in their order; "" if there was none.
func (r *Receiver) Shown() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return append([]string(nil), r.shown...)
}

// Open counts the connections that are open.
func (r *Receiver) Open() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.open)
}

// Require makes a receiver want certificates that the authority has signed.
func (a *Authority) Require() *tls.Config {
	return &tls.Config{MinVersion: tls.VersionTLS12, ClientAuth: tls.RequireAndVerifyClientCert, ClientCAs: a.Pool()}
}
