package egress

import (
	"context"
	"crypto/tls"
	"sync"
)

// A receiver may ask for a client certificate while it shakes hands. Whether it did explains what it answers, or that it
// hangs up, which it does after the handshake in TLS 1.3. When a session is resumed it does not ask again.

// Handshake reports whether the receiver of a request asked for a client certificate.
type Handshake struct {
	mu      sync.Mutex
	asking  *asking // of the transport
	address string  // that was dialled
	asked   bool
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
