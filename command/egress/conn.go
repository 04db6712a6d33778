package egress

import (
	"crypto/tls"
	"errors"
	"net"
	"sync/atomic"
	"syscall"
)

// Conn is a TCP connection that can be looked at before it is used again. Those of a transport of [NewTransport] are.
type Conn struct {
	net.Conn

	idle atomic.Bool // the next write is the first after a time without use

	asking  *asking
	address string
}

// Asked reports whether the receiver has asked for a client certificate, on this connection or one before.
func (c *Conn) Asked() bool { return c.asking != nil && c.asking.has(c.address) }

// errClosedWhileIdle: the other side closed the connection before anything of the request was written.
var errClosedWhileIdle = errors.New("connection was closed while it was idle")

// ConnOf returns the connection below TLS, and nil where it is of another kind.
func ConnOf(conn net.Conn) *Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	found, _ := conn.(*Conn)
	return found
}

// WasIdle says that the connection was not in use. If the other side has closed it meanwhile, or sent what nobody asked
// for, the next write fails before it writes anything.
func (c *Conn) WasIdle() { c.idle.Store(true) }

// Write implements net.Conn.
func (c *Conn) Write(p []byte) (int, error) {
	if c.idle.Swap(false) && !c.quiet() {
		return 0, errClosedWhileIdle
	}
	return c.Conn.Write(p)
}

// quiet says that the connection is open and nothing has come on it, as far as the kernel knows.
func (c *Conn) quiet() bool {
	socket, ok := c.Conn.(syscall.Conn)
	if !ok {
		return true
	}
	raw, err := socket.SyscallConn()
	if err != nil {
		return true // the write will tell
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
