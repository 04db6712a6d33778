package egress

import (
	"errors"
	"net"
	"sync/atomic"
	"syscall"
	"time"
)

// maxAge is the maximum age of a connection at the start of a request, less up to a fifth, so that connections opened
// together are not replaced together. So a change of the receiver's address in DNS is followed.
const maxAge = 5 * time.Minute

// Conn is a TCP connection that can be looked at before it is used again. Those of a transport of [NewTransport] are.
type Conn struct {
	net.Conn

	idle   atomic.Bool // the next write is the first after a time without use
	unused atomic.Bool // nothing was written since the connection was idle
	ended  atomic.Bool // nothing more can be written

	asked   atomic.Bool
	closed  func()    // called when it is closed. Optional.
	expires time.Time // no request is begun on it after that; zero means never
}

// Asked reports whether the receiver asked for a client certificate.
func (c *Conn) Asked() bool { return c.asked.Load() }

// errClosedWhileIdle reports a connection that ended, or became too old, before anything of the request was written.
var errClosedWhileIdle = errors.New("connection was closed while it was idle")

// ConnOf returns the connection below TLS, and nil if it is of another kind.
func ConnOf(conn net.Conn) *Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok {
		conn = secure.NetConn()
	}
	found, _ := conn.(*Conn)
	return found
}

// WasIdle marks the connection as idle until now. If the other side has closed it meanwhile, or sent unrequested data,
// or if it is too old, the next write fails before it writes anything.
func (c *Conn) WasIdle() {
	c.unused.Store(true)
	c.idle.Store(true)
}

// Unused reports whether nothing was written since the connection was idle: the receiver has nothing of the request.
func (c *Conn) Unused() bool { return c.unused.Load() }

// Close implements net.Conn.
func (c *Conn) Close() error {
	if c.closed != nil {
		defer c.closed()
	}
	return c.Conn.Close()
}

// Write implements net.Conn. A receiver may answer before it has read the whole request, and close: then the rest of
// the request is dropped instead of an error, and reading returns the answer, or the end of the connection.
func (c *Conn) Write(p []byte) (int, error) {
	first := c.idle.Swap(false)
	switch {
	case first && (c.ended.Load() || c.old() || !c.quiet()):
		c.ended.Store(true)
		return 0, errClosedWhileIdle
	case c.ended.Load() && c.unused.Load():
		return 0, errClosedWhileIdle
	case c.ended.Load():
		return len(p), nil
	}
	n, err := c.Conn.Write(p)
	if n > 0 || !first {
		c.unused.Store(false)
	}
	if errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET) {
		c.ended.Store(true)
		if c.unused.Load() {
			return n, errClosedWhileIdle
		}
		return len(p), nil
	}
	return n, err
}

// Expire sets when the connection becomes too old. It must not be called while the connection is in use.
func (c *Conn) Expire(at time.Time) { c.expires = at }

func (c *Conn) old() bool { return !c.expires.IsZero() && time.Now().After(c.expires) }

// quiet reports whether the connection is open and nothing was received on it, as far as the kernel knows.
func (c *Conn) quiet() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true // the write will fail
	}
	quiet := true
	// Control leaves the reader alone that waits on the socket all the time; a look takes nothing away from it.
	_ = raw.Control(func(fd uintptr) {
		var one [1]byte
		_, _, err := syscall.Recvfrom(int(fd), one[:], syscall.MSG_PEEK|syscall.MSG_DONTWAIT)
		quiet = errors.Is(err, syscall.EAGAIN)
	})
	return quiet
}
