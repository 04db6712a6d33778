package app

import (
	"crypto/tls"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"carillon/cmd/internal/config"
)

// plainText warns, once for each, if private data crosses a network in plain.
type plainText struct {
	log      *slog.Logger
	database sync.Once
}

// connected looks at a connection to Postgres: its address alone does not show whether it is encrypted.
func (p *plainText) connected(conn *pgx.Conn) {
	if overNetworkInPlain(conn.PgConn().Conn()) {
		p.database.Do(func() {
			p.log.Warn("Postgres is reached over a network in plain: others on the network can read and change the data. "+
				"Let it speak TLS, and add sslmode=verify-full to CARILLON_DATABASE_URL", "host", conn.Config().Host)
		})
	}
}

func overNetworkInPlain(conn net.Conn) bool {
	if _, secure := conn.(*tls.Conn); secure {
		return false
	}
	remote, ok := conn.RemoteAddr().(*net.TCPAddr)
	return ok && !remote.IP.IsLoopback()
}

// stores looks at the addresses of the event store and of the second database of keys, which are connected to later.
func (p *plainText) stores(cfg *config.Config) {
	if host := plainEventStore(cfg.EventStoreURL.Reveal()); host != "" {
		p.log.Warn("the event store is reached over a network in plain: others on the network can read and change the "+
			"data. Let it speak TLS, and set tls=true in CARILLON_EVENTSTORE_URL", "host", host)
	}
	keys, err := pgconn.ParseConfig(cfg.KeyDatabase())
	if err == nil && cfg.KeyDatabase() != "" && mayBePlain(keys) {
		p.log.Warn("the database that keeps the data keys may be reached over a network in plain: "+
			"add sslmode=verify-full to CARILLON_KEY_STORE", "host", keys.Host)
	}
}

// mayBePlain reports whether an address is on a network without requiring TLS.
func mayBePlain(cfg *pgconn.Config) bool {
	plain := cfg.TLSConfig == nil && !here(cfg.Host)
	for _, other := range cfg.Fallbacks {
		plain = plain || other.TLSConfig == nil && !here(other.Host)
	}
	return plain
}

// plainEventStore is the first host of an event store on a network whose address turns TLS off; "" if there is none.
func plainEventStore(address string) string {
	_, rest, _ := strings.Cut(address, "://")
	hosts, query, _ := strings.Cut(rest, "?")
	settings, err := url.ParseQuery(query)
	if err != nil {
		return ""
	}
	plain := false
	for name, values := range settings {
		plain = plain || strings.EqualFold(name, "tls") && strings.EqualFold(values[len(values)-1], "false")
	}
	if !plain {
		return ""
	}
	hosts = strings.TrimSuffix(hosts[strings.LastIndex(hosts, "@")+1:], "/")
	for host := range strings.SplitSeq(hosts, ",") {
		if name, _, err := net.SplitHostPort(host); err == nil {
			host = name
		}
		if !here(host) {
			return host
		}
	}
	return ""
}

// here reports a host that no network lies before: a socket's directory, a loopback address or its name.
func here(host string) bool {
	addr, err := netip.ParseAddr(strings.Trim(host, "[]"))
	return host == "" || strings.HasPrefix(host, "/") || host == "localhost" || err == nil && addr.IsLoopback()
}
