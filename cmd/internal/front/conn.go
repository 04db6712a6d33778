package front

import (
	"crypto/tls"
	"net"
)

// conn is a connection whose requests are well framed, or that ends.
type conn struct {
	net.Conn

	framing framing
	failed  error
}

// Read gives what came, up to a request that is not well framed; then the error, again and again.
func (c *conn) Read(p []byte) (int, error) {
	if c.failed != nil {
		return 0, c.failed
	}
	n, err := c.Conn.Read(p)
	good, wrong := c.framing.follow(p[:n])
	if wrong == nil {
		return n, err
	}
	c.failed = wrong
	if good > 0 {
		return good, nil
	}
	return 0, wrong
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
