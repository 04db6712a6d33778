package front

import (
	"container/list"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
)

// Bounded is a listener with a maximum of open connections, so that callers leave files to others. For one more, the
// connection is closed that has waited longest for a request; if all have one, the caller waits.
type Bounded struct {
	net.Listener

	max int

	mu      sync.Mutex
	changed sync.Cond
	open    int
	evicted uint64
	ended   bool
	waiting *list.List // of *counted, without a request, longest first
}

// Bound returns a listener with a maximum of open connections. Serve learns from it which ones have a request.
func Bound(listener net.Listener, most int) *Bounded {
	b := &Bounded{Listener: listener, max: most, waiting: list.New()}
	b.changed.L = &b.mu
	return b
}

// Load returns the number of open connections, of those that may be, and of those that were closed for others.
func (b *Bounded) Load() (open, most int, evicted uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.max, b.evicted
}

// Accept implements net.Listener.
func (b *Bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: accepted, of: b}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	for b.open > b.max && !b.ended {
		if first := b.waiting.Front(); first != nil {
			b.evicted++
			_ = first.Value.(*counted).end() //nolint:forcetypeassert,errcheck // it has no others
			continue
		}
		b.changed.Wait()
	}
	if b.ended {
		_ = c.end()
		return nil, net.ErrClosed
	}
	c.place = b.waiting.PushBack(c)
	return c, nil
}

// Close implements net.Listener.
func (b *Bounded) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.changed.Broadcast()
	return b.Listener.Close()
}

// follow is told by net/http what a connection does.
func (b *Bounded) follow(of net.Conn, state http.ConnState) {
	switch outer := of.(type) {
	case *secureConn:
		of = outer.secure.NetConn()
	case *tls.Conn:
		of = outer.NetConn()
	case *conn:
		of = outer.Conn
	}
	c, is := of.(*counted)
	if !is {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateActive, http.StateHijacked:
		c.leave()
	case http.StateIdle:
		if c.leave(); !c.closed {
			c.place = b.waiting.PushBack(c)
			b.changed.Signal()
		}
	case http.StateNew, http.StateClosed:
	}
}

// counted is a connection of a Bounded.
type counted struct {
	net.Conn

	of     *Bounded
	place  *list.Element // among those that wait for a request. Optional
	closed bool
}

// Close implements net.Conn.
func (c *counted) Close() error {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	return c.end()
}

// CloseWrite lets a client read why it was refused before the connection ends.
func (c *counted) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// end closes the connection. The mutex is held.
func (c *counted) end() error {
	if c.closed {
		return net.ErrClosed
	}
	c.closed = true
	c.leave()
	c.of.open--
	c.of.changed.Signal()
	return c.Conn.Close()
}

// leave takes the connection from those that wait for a request. The mutex is held.
func (c *counted) leave() {
	if c.place != nil {
		c.of.waiting.Remove(c.place)
		c.place = nil
	}
}
