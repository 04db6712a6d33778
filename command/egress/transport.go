package egress

import (
	"cmp"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"syscall"
	"time"

	"carillon/eventstore/panics"
)

// Options tunes [NewTransport]. Zero values give the defaults named.
type Options struct {
	// Resolver replaces the name resolution, for tests. It should set PreferGo. Default: Go's own resolver.
	Resolver *net.Resolver
	// RootCAs replaces the system's certificate authorities.
	RootCAs *x509.CertPool
	// Certificate is presented to receivers that ask for one, on the transport's connections alone. Default: none.
	Certificate *tls.Certificate
	// From are the addresses of this machine that connections leave from: at most one of IPv4 and one of IPv6. If one is
	// named, addresses of the other family are not connected to. Default: chosen by the system.
	From []netip.Addr
	// IdleConnTimeout closes unused connections. Default 90 s.
	IdleConnTimeout time.Duration
	// MaxIdleConns bounds idle connections to all hosts. Default 512.
	MaxIdleConns int
	// MaxIdleConnsPerHost is how many connections stay open to one host between requests. It should be at least the
	// number of requests in flight per host, else connections are opened and closed all the time. Default 128.
	MaxIdleConnsPerHost int
	// Files bounds the connections of this transport and others together. Optional.
	Files *Files
}

const (
	// dialTimeout bounds DNS and TCP connect together.
	dialTimeout      = 10 * time.Second
	handshakeTimeout = 10 * time.Second
	// maxResponseHeaderBytes is far above what servers send and keeps a hostile one from filling the memory.
	maxResponseHeaderBytes = 64 << 10
)

// NewTransport makes a transport that connects only to addresses the policy permits: it checks each resolved address
// right before connecting to it. It uses no proxy, never asks for compression, and speaks TLS 1.2 or later, and
// HTTP/1.1: one lost connection of HTTP/2 would fail all its requests at once. Requests refused by the policy fail with
// an error that matches [ErrBlocked].
func NewTransport(policy Policy, opts Options) *http.Transport {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	secure := &tls.Config{
		MinVersion: tls.VersionTLS12,
		RootCAs:    opts.RootCAs,
		// Of this transport alone: a resumed session is authenticated by the certificate of its first connection.
		ClientSessionCache: tls.NewLRUClientSessionCache(1024),
	}
	transport := &http.Transport{
		Proxy:                  nil, // a proxy would resolve and connect in our place
		DialContext:            caught(guardedDial(policy, opts)),
		TLSClientConfig:        secure,
		TLSHandshakeTimeout:    handshakeTimeout,
		DisableCompression:     true, // a small body could unfold to a huge one
		MaxIdleConns:           cmp.Or(opts.MaxIdleConns, 512),
		MaxIdleConnsPerHost:    cmp.Or(opts.MaxIdleConnsPerHost, 128),
		IdleConnTimeout:        cmp.Or(opts.IdleConnTimeout, 90*time.Second),
		MaxResponseHeaderBytes: maxResponseHeaderBytes,
		Protocols:              protocols,
	}
	transport.DialTLSContext = caught(func(ctx context.Context, network, address string) (net.Conn, error) {
		return dialTLS(ctx, transport, opts.Certificate, network, address)
	})
	opts.Files.share(transport)
	return transport
}

type dial = func(ctx context.Context, network, address string) (net.Conn, error)

// caught returns the panics of d as errors: a transport dials in a goroutine of its own.
func caught(d dial) dial {
	return func(ctx context.Context, network, address string) (conn net.Conn, err error) {
		err = panics.Catch("dial", func() error {
			conn, err = d(ctx, network, address)
			return err
		})
		return conn, err
	}
}

func guardedDial(policy Policy, opts Options) dial {
	resolver := opts.Resolver
	if resolver == nil {
		resolver = goResolver
	}
	dialer := &net.Dialer{
		Timeout:  dialTimeout,
		Resolver: resolver,
		ControlContext: func(ctx context.Context, network, address string, socket syscall.RawConn) error {
			return panics.Catch("dial", func() error { // addresses of two families are dialed in goroutines of their own
				if err := policy.control(ctx, network, address, socket); err != nil {
					return err
				}
				return leaveFrom(opts.From, network, socket)
			})
		},
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		name, _, err := net.SplitHostPort(address)
		if err != nil {
			return nil, fmt.Errorf("address of the request: %w", err)
		}
		// Spelled addresses get the right reason at once, instead of a failed look-up of a name such as 0x7f.1.
		h, err := parseHost(name)
		if err != nil {
			return nil, &net.DNSError{Err: err.Error(), Name: name, IsNotFound: true}
		}
		if err := policy.checkAll(h.addrs); err != nil {
			return nil, err
		}
		opts.Files.take()
		var made *Conn
		defer func() { // after a panic, too
			if made == nil {
				opts.Files.giveBack()
			}
		}()
		conn, err := dialer.DialContext(ctx, network, address)
		if err != nil {
			return nil, err
		}
		made = &Conn{Conn: conn, closed: sync.OnceFunc(opts.Files.giveBack)}
		made.Expire(time.Now().Add(maxAge - rand.N(maxAge/5))) //nolint:gosec // no secret
		return made, nil
	}
}

var errNetwork = errors.New("only TCP is permitted")

// control runs between the creation of a socket and its connect, with the address that the kernel is about to be given.
// Nothing can change it after.
func (p Policy) control(_ context.Context, network, address string, _ syscall.RawConn) error {
	if network != "tcp4" && network != "tcp6" {
		return fmt.Errorf("network %s: %w", network, errNetwork)
	}
	target, err := netip.ParseAddrPort(address)
	if err != nil {
		return &BlockedError{}
	}
	return p.Check(target.Addr())
}
