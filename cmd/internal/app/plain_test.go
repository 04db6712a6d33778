package app

import (
	"crypto/tls"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"carillon/eventstore/storetest/must"
)

// peer is a connection to an address.
type peer struct {
	net.Conn

	address net.Addr
}

func (p peer) RemoteAddr() net.Addr { return p.address }

func TestPlainConnectionsOverANetwork(t *testing.T) {
	t.Parallel()
	far, near := &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1)}, &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1)}
	connections := map[string]struct {
		conn    net.Conn
		inPlain bool
	}{
		"over a network":      {peer{address: far}, true},
		"over TLS":            {tls.Client(peer{address: far}, &tls.Config{MinVersion: tls.VersionTLS12}), false},
		"to this machine":     {peer{address: near}, false},
		"to IPv6 loopback":    {peer{address: &net.TCPAddr{IP: net.IPv6loopback}}, false},
		"to a socket of Unix": {peer{address: &net.UnixAddr{Name: "/run/postgresql/.s.PGSQL.5432"}}, false},
	}
	for name, tt := range connections {
		if got := overNetworkInPlain(tt.conn); got != tt.inPlain {
			t.Errorf("a connection %s: reported %t", name, got)
		}
	}
	stores := map[string]string{
		"": "", "esdb://node1:2113?tls=true": "", "esdb://u:p@node1:2113,node2:2113": "",
		"esdb://localhost:2113?tls=false": "",
		"esdb://127.0.0.1:2113?tls=false": "", "esdb://[::1]:2113/?tls=false": "",
		"esdb://u:p@node1:2113?tls=false":                       "node1",
		"esdb://127.0.0.1:1,192.0.2.1:2?a=b&TLS=False":          "192.0.2.1",
		"kurrentdb+discover://cluster.example?tls=false":        "cluster.example",
		"esdb://u:p%40x@[2001:db8::1]:2113/?tls=false&gossip=1": "2001:db8::1",
	}
	for address, want := range stores {
		if got := plainEventStore(address); got != want {
			t.Errorf("%s: %q is reported, want %q", address, got, want)
		}
	}
	databases := map[string]bool{
		"postgres://u@keys.example/k": true, "postgres://u@keys.example/k?sslmode=disable": true,
		"postgres://u@keys.example/k?sslmode=require": false,
		"postgres://u@localhost/k":                    false, "postgres:///k?host=/run/postgresql": false,
		"postgres://u@127.0.0.1,keys.example/k?sslmode=prefer": true,
	}
	for address, want := range databases {
		cfg := must.Get(pgconn.ParseConfig(address))(t)
		if got := mayBePlain(cfg); got != want {
			t.Errorf("%s: reported %t", address, got)
		}
	}
}
