package front

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"sync"
	"time"

	"carillon/cmd/internal/wire"
	"carillon/eventstore/panics"
)

const (
	handshakeTimeout = 5 * time.Second
	acceptPause      = 100 * time.Millisecond
)

// plainHTTPAnswer answers plain HTTP where a handshake is expected.
const plainHTTPAnswer = "HTTP/1.0 401 Unauthorized\r\nContent-Type: application/json\r\nCache-Control: no-store\r\n" +
	"WWW-Authenticate: Bearer realm=\"carillon\"\r\n\r\n" +
	`{"success":false,"error":{"code":"AUTHENTICATION_FAILED","message":"` +
	wire.PlainHTTPRefusal + `"}}` + "\n"

// plainListener returns connections that are well framed.
type plainListener struct{ net.Listener }

func (l plainListener) Accept() (net.Conn, error) {
	accepted, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: accepted}, nil
}

// secureListener returns connections after their handshake: those that speak HTTP/2 unchanged, since net/http knows
// them by their type, and others well framed.
type secureListener struct {
	net.Listener

	config *tls.Config
	log    *slog.Logger
	ready  chan net.Conn
	failed chan error // of the listener beneath, once
	closed chan struct{}
	once   sync.Once
}

func newSecureListener(listener net.Listener, config *tls.Config, log *slog.Logger) *secureListener {
	l := &secureListener{
		Listener: listener,
		config:   config,
		log:      log,
		ready:    make(chan net.Conn),
		failed:   make(chan error, 1),
		closed:   make(chan struct{}),
	}
	go panics.Loop(context.Background(), "listener", func(context.Context) { l.take() })()
	return l
}

// take accepts connections until the listener ends.
func (l *secureListener) take() {
	for {
		accepted, err := l.Listener.Accept()
		switch {
		case err == nil:
			go panics.Func("handshake", func() {
				if panics.Catch("handshake", func() error { l.handshake(accepted); return nil }) != nil {
					_ = accepted.Close()
				}
			})()
			continue
		case errors.Is(err, net.ErrClosed):
			l.failed <- err
			return
		}
		l.log.Warn("a connection can't be taken, trying again", "error", err) // too many files are open, most likely
		select {
		case <-time.After(acceptPause):
		case <-l.closed:
		}
	}
}

// handshake makes the TLS handshake of a connection.
func (l *secureListener) handshake(accepted net.Conn) {
	secure := tls.Server(accepted, l.config)
	ctx, cancel := context.WithTimeout(context.Background(), handshakeTimeout)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		if header, ok := errors.AsType[tls.RecordHeaderError](err); ok && header.Conn != nil {
			_ = header.Conn.SetWriteDeadline(time.Now().Add(handshakeTimeout))
			_, _ = io.WriteString(header.Conn, plainHTTPAnswer)
		}
		l.log.Debug("a TLS handshake failed", "peer", accepted.RemoteAddr().String(), "error", err)
		_ = accepted.Close()
		return
	}
	var ready net.Conn = secure
	if secure.ConnectionState().NegotiatedProtocol != "h2" {
		ready = &secureConn{conn: conn{Conn: secure}, secure: secure}
	}
	select {
	case l.ready <- ready:
	case <-l.closed:
		_ = secure.Close()
	}
}

// Accept implements net.Listener.
func (l *secureListener) Accept() (net.Conn, error) {
	select {
	case ready := <-l.ready:
		return ready, nil
	case err := <-l.failed:
		l.failed <- err // for the caller again
		return nil, err
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Close implements net.Listener.
func (l *secureListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return l.Listener.Close()
}

// conn is a connection whose requests are well framed, or that ends.
type conn struct {
	net.Conn

	framing framing
	passed  []byte // bytes read and checked, and not yet returned
	failed  error
}

// Read returns the received bytes, up to a malformed request; then always the error.
func (c *conn) Read(p []byte) (int, error) {
	for {
		if len(c.passed) > 0 {
			n := copy(p, c.passed)
			if c.passed = c.passed[n:]; len(c.passed) == 0 {
				c.passed = nil
			}
			return n, nil
		}
		if c.failed != nil || len(p) == 0 {
			return 0, c.failed
		}
		n, err := c.Conn.Read(p)
		passed, wrong := c.framing.follow(p[:n])
		c.failed = wrong
		if wrong != nil {
			err = nil // an error of the connection after a malformed request does not matter
		}
		n = copy(p, passed)
		if n < len(passed) {
			c.passed = passed[n:]
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

// CloseWrite lets a client read why it was refused before the connection ends.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// secureConn is a conn over TLS.
type secureConn struct {
	conn

	secure *tls.Conn
}

// ConnectionState is how net/http learns that a request came over TLS.
func (c *secureConn) ConnectionState() tls.ConnectionState { return c.secure.ConnectionState() }
