package front

import (
	"crypto/tls"
	"net"
)

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
