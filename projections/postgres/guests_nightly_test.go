//go:build nightly && unix

package postgres

import (
	"fmt"
	"net/url"
	"os"
	"testing"

	"github.com/jackc/pgx/v5"
)

// Guests connect at the loopback address with their password; the owner has none, and nothing else is reachable there.
func TestGuestsConnectOverLoopback(t *testing.T) {
	// The system gives this port to none who asks for a free one.
	address := fmt.Sprint("127.0.0.1:", 19_000+os.Getpid()%1_000)
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
