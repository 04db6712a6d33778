package node

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"slices"
	"sync"
	"time"
)

// A port speaks gRPC, and HTTP beside it for probes and people. The protocol of a connection is taken from TLS, if
// negotiated, and else from its first bytes: every HTTP/2 client begins with the same ones.
//
//	             ┌─ HTTP/2, and nothing else offered ─▶ gRPC
//	TLS, plain ──┤
//	             └─ anything else ────────────────────▶ HTTP (and gRPC of clients that accept either)
//
// Most clients end up in the first branch, which costs only the look at the first bytes.

const (
	protoHTTP2 = "h2"
	protoHTTP1 = "http/1.1"
	http2Start = "PRI " // of "PRI * HTTP/2.0"
	// sortWithin is how long a connection may take to say what it wants.
	sortWithin = 10 * time.Second
	// acceptPause is how long to wait where accepting fails for lack of something, such as descriptors.
	acceptPause = 50 * time.Millisecond
)

// splitter sorts the connections of a listener.
type splitter struct {
	net.Listener

	security *tls.Config
	rpc, web *branch
}

// branch is a listener of those connections that belong there.
type branch struct {
	address net.Addr
	conns   chan net.Conn
	done    chan struct{}
	once    sync.Once
	err     error // set before done is closed
}

func newBranch(address net.Addr) *branch {
	return &branch{
		address: address,
		conns:   make(chan net.Conn),
		done:    make(chan struct{}),
		err:     net.ErrClosed,
	}
}

// Accept implements net.Listener.
func (b *branch) Accept() (net.Conn, error) {
	select {
	case conn := <-b.conns:
		return conn, nil
	case <-b.done:
		return nil, b.err
	}
}

// Close implements net.Listener.
func (b *branch) Close() error {
	b.end(net.ErrClosed)
	return nil
}

func (b *branch) end(err error) {
	b.once.Do(func() {
		b.err = err
		close(b.done)
	})
}

// Addr implements net.Listener.
func (b *branch) Addr() net.Addr { return b.address }

func (b *branch) take(conn net.Conn) {
	select {
	case b.conns <- conn:
	case <-b.done:
		_ = conn.Close()
	}
}

func newSplitter(listener net.Listener, security *tls.Config) *splitter {
	s := &splitter{Listener: listener, rpc: newBranch(listener.Addr()), web: newBranch(listener.Addr())}
	if security != nil {
		s.security = security.Clone()
		s.security.NextProtos = []string{protoHTTP2, protoHTTP1}
		s.security.GetConfigForClient = func(hello *tls.ClientHelloInfo) (*tls.Config, error) {
			if conn, ok := hello.Conn.(*unsorted); ok {
				conn.either = slices.Contains(hello.SupportedProtos, protoHTTP1)
			}
			return nil, nil //nolint:nilnil // the configuration stays
		}
	}
	return s
}

// run accepts connections until the listener is closed.
func (s *splitter) run() {
	for {
		conn, err := s.Accept()
		switch {
		case err == nil:
			go s.sort(&unsorted{Conn: conn})
		case errors.Is(err, net.ErrClosed):
			s.rpc.end(err)
			s.web.end(err)
			return
		default:
			select {
			case <-time.After(acceptPause):
			case <-s.rpc.done:
				return
			}
		}
	}
}

// unsorted is a connection whose protocol is not known yet.
type unsorted struct {
	net.Conn

	either bool   // its TLS takes HTTP/1.1 too
	begun  []byte // examined and still to be read
}

// Read implements net.Conn.
func (c *unsorted) Read(p []byte) (int, error) {
	if len(c.begun) > 0 {
		n := copy(p, c.begun)
		c.begun = c.begun[n:]
		return n, nil
	}
	return c.Conn.Read(p)
}

func (s *splitter) sort(conn *unsorted) {
	if conn.SetDeadline(time.Now().Add(sortWithin)) != nil {
		_ = conn.Close()
		return
	}
	to, sorted, err := s.branchOf(conn)
	if err == nil {
		err = conn.SetDeadline(time.Time{})
	}
	if err != nil {
		_ = conn.Close() // who says nothing, or nothing that can be understood, gets no answer
		return
	}
	to.take(sorted)
}

func (s *splitter) branchOf(conn *unsorted) (*branch, net.Conn, error) {
	if s.security == nil {
		return s.peek(conn)
	}
	secure := tls.Server(conn, s.security)
	ctx, cancel := context.WithTimeout(context.Background(), sortWithin)
	defer cancel()
	if err := secure.HandshakeContext(ctx); err != nil {
		return nil, nil, err
	}
	switch proto := secure.ConnectionState().NegotiatedProtocol; {
	case proto == "":
		return s.peek(&unsorted{Conn: secure})
	case proto == protoHTTP2 && !conn.either:
		return s.rpc, secure, nil
	}
	return s.web, secure, nil
}

// peek reads as much as is needed to decide.
func (s *splitter) peek(conn *unsorted) (*branch, net.Conn, error) {
	begun := make([]byte, 0, len(http2Start))
	for len(begun) < len(http2Start) {
		n, err := conn.Conn.Read(begun[len(begun):cap(begun)])
		if err != nil {
			return nil, nil, err
		}
		begun = begun[:len(begun)+n]
		if string(begun) != http2Start[:len(begun)] {
			conn.begun = begun
			return s.web, conn, nil
		}
	}
	conn.begun = begun
	return s.rpc, conn, nil
}
