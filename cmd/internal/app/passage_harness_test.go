package app_test

import (
	"net"
	"net/url"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/eventstore/storetest/must"
)

// passage is a connection to a server that can be cut: data waits until it is restored, or connections are refused.
type passage struct {
	*testing.T
	network, to, address string

	mu       sync.Mutex
	listener net.Listener
	open     map[net.Conn]struct{}
	held     chan struct{} // closed when it is mended; nil while all passes
}

func newPassage(t *testing.T, network, to string) *passage {
	t.Helper()
	p := &passage{
		T:       t,
		network: network,
		to:      to,
		address: "127.0.0.1:0",
		open:    map[net.Conn]struct{}{},
	}
	p.listen()
	t.Cleanup(func() {
		p.refuse()
		p.mu.Lock()
		defer p.mu.Unlock()
		if p.held != nil {
			close(p.held)
		}
	})
	return p
}

// newPassageToStore returns a passage to an event store, and the store's address through it.
func newPassageToStore(t *testing.T, store string) (*passage, string) {
	t.Helper()
	const scheme, query = "esdb://", "?tls=false"
	p := newPassage(t, "tcp", strings.TrimSuffix(strings.TrimPrefix(store, scheme), query))
	return p, scheme + p.address + query
}

// newPassageToPostgres returns a passage to a database, and the database's address through it.
func newPassageToPostgres(t *testing.T, database string) (*passage, string) {
	t.Helper()
	config := must.Get(pgx.ParseConfig(database))(t)
	network, address := pgconn.NetworkAddress(config.Host, config.Port)
	p := newPassage(t, network, address)
	through := url.URL{
		Scheme:   "postgres",
		Host:     p.address,
		User:     url.UserPassword(config.User, config.Password),
		Path:     "/" + config.Database,
		RawQuery: "sslmode=disable",
	}
	return p, through.String()
}

func (p *passage) listen() {
	p.Helper()
	listener, err := (&net.ListenConfig{}).Listen(p.Context(), "tcp", p.address)
	if err != nil {
		p.Error(err)
		return
	}
	p.mu.Lock()
	p.listener, p.address = listener, listener.Addr().String()
	p.mu.Unlock()
	go func() {
		for {
			from, err := listener.Accept()
			if err != nil {
				return
			}
			go p.carry(from)
		}
	}()
}

func (p *passage) carry(from net.Conn) {
	p.pass()
	to, err := (&net.Dialer{}).DialContext(p.Context(), p.network, p.to)
	if err != nil {
		_ = from.Close()
		return
	}
	p.mu.Lock()
	p.open[from], p.open[to] = struct{}{}, struct{}{}
	p.mu.Unlock()
	var both sync.WaitGroup
	both.Go(func() { p.pipe(from, to) })
	both.Go(func() { p.pipe(to, from) })
	both.Wait()
	p.mu.Lock()
	delete(p.open, from)
	delete(p.open, to)
	p.mu.Unlock()
}

func (p *passage) pipe(from, to net.Conn) {
	defer func() { _, _ = from.Close(), to.Close() }()
	buffer := make([]byte, 64<<10)
	for {
		n, err := from.Read(buffer)
		p.pass()
		if n > 0 {
			if _, err := to.Write(buffer[:n]); err != nil {
				return
			}
		}
		if err != nil {
			return
		}
	}
}

// pass waits while packets vanish.
func (p *passage) pass() {
	p.mu.Lock()
	held := p.held
	p.mu.Unlock()
	if held != nil {
		<-held
	}
}

func (p *passage) vanish() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held = make(chan struct{})
}

func (p *passage) refuse() {
	p.mu.Lock()
	defer p.mu.Unlock()
	_ = p.listener.Close()
	for conn := range p.open {
		_ = conn.Close()
	}
}

func (p *passage) mend() {
	p.mu.Lock()
	held := p.held
	p.held = nil
	p.mu.Unlock()
	if held != nil {
		close(held)
		return
	}
	p.listen()
}
