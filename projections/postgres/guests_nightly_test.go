//go:build nightly && unix

package postgres

import (
	"net"
	"net/url"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Guests connect at the loopback address with their password; the owner has none, and nothing else is reachable there.
// It is a nightly test because the port is free only a moment before.
func TestGuestsConnectOverLoopback(t *testing.T) {
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	srv := start(t, Config{Dir: t.TempDir(), Guests: "readers", Loopback: address})
	ask(t, srv, "CREATE ROLE readers")
	ask(t, srv, "CREATE ROLE ana LOGIN PASSWORD 'right' IN ROLE readers")
	ask(t, srv, "CREATE ROLE bob LOGIN PASSWORD 'right'")
	for _, c := range []struct {
		user, password string
		admitted       bool
	}{{"ana", "right", true}, {"ana", "wrong", false}, {"bob", "right", false}, {"carillon", "", false}} {
		u := url.URL{
			Scheme:   "postgres",
			User:     url.UserPassword(c.user, c.password),
			Host:     address,
			Path:     "/carillon",
			RawQuery: "sslmode=disable",
		}
		conn, err := pgx.Connect(t.Context(), u.String())
		if (err == nil) != c.admitted {
			t.Errorf("%s with the %s password: %v", c.user, c.password, err)
		}
		if err == nil {
			_ = conn.Close(t.Context())
		}
	}
}
