package egress

import (
	"context"
	"crypto/tls"
	"sync"
)

// A receiver may ask for a client certificate while it shakes hands. Whether it did explains what it answers, or that it
// hangs up, which it does after the handshake in TLS 1.3. When a session is resumed it does not ask again.

// Handshake says of a request's connection whether the receiver asked for a client certificate, and of the request whether it
// still wants a connection. Its methods Wanted, Served and Opened are for the hooks of an [httptrace.ClientTrace].
type Handshake struct {
	mu      sync.Mutex
	asking  *asking // of the transport
	address string  // that was dialled
	asked   bool

	served  bool
	waiting chan struct{} // closed when it is served; nil while nobody waits for that
	leaving []func()      // of connections that are being opened for it
}

type handshakeKey struct{}

// NoteHandshake lets a request made with the context tell of its handshake.
func NoteHandshake(ctx context.Context) (context.Context, *Handshake) {
	noted := &Handshake{}
	return context.WithValue(ctx, handshakeKey{}, noted), noted
}

// Asked reports whether the receiver asked for a client certificate.
func (h *Handshake) Asked() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.asked
}

func (h *Handshake) dial(asking *asking, address string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asking, h.address = asking, address
}

// Wanted is for GetConn: the request looks for a connection.
func (h *Handshake) Wanted(string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served = false
}

// Served is for GotConn: the request has a connection, or has ended, so none needs to be opened for it.
func (h *Handshake) Served() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.served = true
	if h.waiting != nil {
		close(h.waiting)
		h.waiting = nil
	}
}

// Opened is for TLSHandshakeDone: a connection that was opened for the request is open, or has failed.
func (h *Handshake) Opened(tls.ConnectionState, error) {
	h.mu.Lock()
	var leave func()
	if last := len(h.leaving) - 1; last >= 0 { // which of them is all the same
		leave, h.leaving = h.leaving[last], h.leaving[:last]
	}
	h.mu.Unlock()
	if leave != nil {
		leave()
	}
}

// servedElse is closed when the request is served by another connection; nil: it has been.
func (h *Handshake) servedElse() <-chan struct{} {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.served {
		return nil
	}
	if h.waiting == nil {
		h.waiting = make(chan struct{})
	}
	return h.waiting
}

// opens notes what to call when the connection that is being opened is open.
func (h *Handshake) opens(leave func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaving = append(h.leaving, leave)
}

func (h *Handshake) ask() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.asked = true
	if h.asking != nil {
		h.asking.add(h.address)
	}
}

// asking remembers which addresses asked lately, for connections that others have opened.
type asking struct {
	mu        sync.Mutex
	addresses map[string]struct{}
}

const maxAsking = 4096

func (a *asking) add(address string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.addresses) >= maxAsking || a.addresses == nil {
		a.addresses = map[string]struct{}{}
	}
	a.addresses[address] = struct{}{}
}

func (a *asking) has(address string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, asked := a.addresses[address]
	return asked
}

// show answers whoever asks for a certificate: with this one, whichever authorities are named, as they are often named in
// part; or with none.
func show(certificate *tls.Certificate) func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
	if certificate == nil {
		certificate = &tls.Certificate{}
	}
	return func(info *tls.CertificateRequestInfo) (*tls.Certificate, error) {
		if noted, ok := info.Context().Value(handshakeKey{}).(*Handshake); ok {
			noted.ask()
		}
		return certificate, nil
	}
}
