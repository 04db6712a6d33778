package front

import (
	"container/list"
	"context"
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"time"

	"carillon/eventstore/panics"
)

// grace is how long a connection stays open after an answer: its next request may be in flight.
const grace = time.Second

// Bounded is a listener with a maximum of open connections, so that callers leave files to others. For one more, the
// connection is closed that has waited longest for a request that is whole up to its body; if all have one, or had one
// just now, the caller waits.
type Bounded struct {
	net.Listener

	max int

	mu      sync.Mutex
	changed sync.Cond
	open    int
	busy    int // connections of which a request is being answered
	evicted uint64
	ended   bool
	silent  *list.List // of *counted, without a request so far, longest first
	waiting *list.List // of *counted, between two requests, longest first
}

// Bound returns a listener with a maximum of open connections. Serve learns from it which ones have a request.
func Bound(listener net.Listener, most int) *Bounded {
	b := &Bounded{Listener: listener, max: most}
	b.silent, b.waiting = list.New(), list.New()
	b.changed.L = &b.mu
	return b
}

// Load returns the number of open connections, of those that may be, and of those that were closed for others.
func (b *Bounded) Load() (open, most int, evicted uint64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.open, b.max, b.evicted
}

// Crowded reports whether requests are being answered on all but a few of the connections that may be open.
func (b *Bounded) Crowded(spare int) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.busy > b.max-spare
}

// Accept implements net.Listener.
func (b *Bounded) Accept() (net.Conn, error) {
	accepted, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	c := &counted{Conn: accepted, of: b, idle: true}
	b.mu.Lock()
	defer b.mu.Unlock()
	b.open++
	for b.open > b.max && !b.ended {
		out, wait := b.next(time.Now())
		switch {
		case out != nil:
			b.evicted++
			_ = out.end()
			continue
		case wait > 0:
			time.AfterFunc(wait, panics.Func("listener", b.wake))
		}
		b.changed.Wait()
	}
	if b.ended {
		_ = c.end()
		return nil, net.ErrClosed
	}
	c.wait(b.silent)
	return c, nil
}

// next returns the connection to close for another one, or when there may be one. The mutex is held.
func (b *Bounded) next(now time.Time) (out *counted, wait time.Duration) {
	silent, waiting := first(b.silent), first(b.waiting)
	if waiting != nil {
		wait = waiting.since.Add(grace).Sub(now)
	}
	if waiting == nil || wait > 0 || silent != nil && silent.since.Before(waiting.since) {
		return silent, wait
	}
	return waiting, 0
}

func first(of *list.List) *counted {
	if front := of.Front(); front != nil {
		return front.Value.(*counted) //nolint:forcetypeassert,errcheck // it has no others
	}
	return nil
}

func (b *Bounded) wake() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changed.Broadcast()
}

// Close implements net.Listener.
func (b *Bounded) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.ended = true
	b.changed.Broadcast()
	return b.Listener.Close()
}

// follow notes the state of a connection. The first byte of a request makes it active, and does not keep it
// from being closed for others: many may never send the rest.
func (b *Bounded) follow(of net.Conn, state http.ConnState) {
	c := countedOf(of)
	if c == nil {
		return
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	switch state {
	case http.StateActive:
		c.idle = false
	case http.StateHijacked:
		c.idle = false
		c.leave()
	case http.StateIdle:
		c.idle = true
		c.setClosable()
	case http.StateNew, http.StateClosed:
	}
}

type ofConnection struct{}

// name lets requests know their connection.
func (*Bounded) name(ctx context.Context, of net.Conn) context.Context {
	return context.WithValue(ctx, ofConnection{}, countedOf(of))
}

// serve keeps the connections of requests that are being answered.
func (b *Bounded) serve(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c, _ := r.Context().Value(ofConnection{}).(*counted); c != nil {
			c.add(1)
			defer c.add(-1)
		}
		next.ServeHTTP(w, r)
	})
}

func countedOf(of net.Conn) *counted {
	switch outer := of.(type) {
	case *secureConn:
		of = outer.secure.NetConn()
	case *tls.Conn:
		of = outer.NetConn()
	case *conn:
		of = outer.Conn
	}
	c, _ := of.(*counted)
	return c
}

// counted is a connection of a Bounded.
type counted struct {
	net.Conn

	of      *Bounded
	place   *list.Element // among those that may be closed. Optional
	in      *list.List    // of the place
	since   time.Time     // it has the place
	running int           // requests that are being answered
	idle    bool          // by what net/http says
	closed  bool
}

// add counts requests that are being answered.
func (c *counted) add(n int) {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	before := c.running
	c.running += n
	switch {
	case before == 0:
		c.of.busy++
		c.leave()
	case c.running == 0:
		c.of.busy--
		if c.idle { // over HTTP/2, whose stream may end before its handler
			c.setClosable()
		}
	}
}

// setClosable lets the connection be closed for others, if nothing is being answered. The mutex is held.
func (c *counted) setClosable() {
	if c.running == 0 && !c.closed {
		c.leave()
		c.wait(c.of.waiting)
		c.of.changed.Signal()
	}
}

// wait appends the connection to those that may be closed. The mutex is held.
func (c *counted) wait(in *list.List) {
	c.in, c.since = in, time.Now()
	c.place = in.PushBack(c)
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

// leave takes the connection from those that may be closed. The mutex is held.
func (c *counted) leave() {
	if c.place != nil {
		c.in.Remove(c.place)
		c.place = nil
	}
}
