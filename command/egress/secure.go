package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"sync/atomic"
)

// ErrHTTP2 reports a receiver that speaks HTTP/2 only.
var ErrHTTP2 = errors.New("the receiver speaks HTTP/2 only, and requests are sent by HTTP/1.1")

// errHandshakeTimeout reports a TLS handshake that took too long.
var errHandshakeTimeout error = handshakeTimeoutError{}

type handshakeTimeoutError struct{}

func (handshakeTimeoutError) Error() string   { return "TLS handshake timeout" }
func (handshakeTimeoutError) Timeout() bool   { return true }
func (handshakeTimeoutError) Temporary() bool { return true }

// noProtocol is the alert of a receiver that takes none of the protocols that it is offered.
const noProtocol = "tls: no application protocol"

// secureConn is a TLS connection that recognises an answer in HTTP/2. It begins with a frame, in which a line of
// HTTP/1.1 may never end: net/http would wait for it.
type secureConn struct {
	*tls.Conn

	answered bool
	failed   atomic.Pointer[error] // what reading failed with
}

// Read implements net.Conn.
func (c *secureConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.answered && n > 0 {
		c.answered = true
		if p[0] == 0 && (n < 4 || p[3] == 4) { // the upper byte of a length, and the type SETTINGS
			n, err = 0, ErrHTTP2
		}
	}
	if err != nil && !errors.Is(err, io.EOF) {
		c.failed.Store(&err)
	}
	return n, err
}

// Write implements net.Conn. Of a connection that net/http closed because it could not be read, before the request was
// written, the failure is that of reading: an alert, an answer in HTTP/2.
func (c *secureConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if cause := c.failed.Load(); cause != nil && errors.Is(err, net.ErrClosed) {
		err = *cause
	}
	return n, err
}

// AskedError is the failure of a handshake in which the receiver asked for a client certificate.
type AskedError struct{ Err error }

// Error implements error.
func (e *AskedError) Error() string { return e.Err.Error() }

// Unwrap returns the failure.
func (e *AskedError) Unwrap() error { return e.Err }

// sessions keeps no session of a receiver that asks for certificates: when one is resumed, the receiver does not ask
// again, and whether it asks explains what it answers.
type sessions struct {
	tls.ClientSessionCache

	conn *Conn
}

// Put implements tls.ClientSessionCache.
func (s sessions) Put(key string, session *tls.ClientSessionState) {
	if session == nil || !s.conn.Asked() {
		s.ClientSessionCache.Put(key, session)
	}
}

// dialTLS connects and shakes hands, as net/http does with a transport's own configuration. It shows the certificate,
// if there is one, whichever authorities the receiver names: they are often named in part.
func dialTLS(ctx context.Context, transport *http.Transport, certificate *tls.Certificate,
	network, address string) (net.Conn, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	conn, err := transport.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	config := transport.TLSClientConfig.Clone()
	config.NextProtos = []string{"http/1.1"}
	if config.ServerName == "" {
		config.ServerName = host
	}
	plain := cmp.Or(ConnOf(conn), &Conn{}) // a test may have wrapped it
	config.ClientSessionCache = sessions{ClientSessionCache: config.ClientSessionCache, conn: plain}
	config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) {
		plain.asked.Store(true)
		return cmp.Or(certificate, &tls.Certificate{}), nil
	}
	secure := tls.Client(conn, config)
	trace := httptrace.ContextClientTrace(ctx)
	if trace != nil && trace.TLSHandshakeStart != nil {
		trace.TLSHandshakeStart()
	}
	err = shake(ctx, transport, secure)
	if trace != nil && trace.TLSHandshakeDone != nil {
		trace.TLSHandshakeDone(secure.ConnectionState(), err)
	}
	if err != nil {
		_ = conn.Close()
		if plain.Asked() {
			err = &AskedError{err}
		}
		return nil, err
	}
	return &secureConn{Conn: secure}, nil
}

func shake(ctx context.Context, transport *http.Transport, secure *tls.Conn) error {
	limited, cancel := context.WithTimeoutCause(ctx, transport.TLSHandshakeTimeout, errHandshakeTimeout)
	defer cancel()
	err := secure.HandshakeContext(limited)
	var op *net.OpError
	switch {
	case err == nil:
		return nil
	case ctx.Err() == nil && errors.Is(context.Cause(limited), errHandshakeTimeout):
		return errHandshakeTimeout
	case errors.As(err, &op) && op.Op == "remote error" && op.Err.Error() == noProtocol:
		return ErrHTTP2
	}
	return err
}
