//go:build unix

// Package pgtest gives tests a real Postgres.
//
// The first test of a test binary that asks for a database starts a private server, from a copy of a cluster that is
// kept in the user's cache directory; the server ends with the binary, whether that passes, panics or is killed, and
// its directory is removed. Every database is a new one, for one test, and is dropped when the test ends, so that tests
// can run in parallel and use advisory locks, NOTIFY and schemas as they like.
//
// With CARILLON_TEST_DATABASE_URL set, the databases are made on that server instead (its user must be allowed to make
// databases). CARILLON_POSTGRES_BIN names the directory of the binaries where they are not found by themselves.
//
// Fault tests get a server of their own, which can be killed and restarted, by NewServer.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"
)

// poolSize is enough for a test that holds a few sessions (LISTEN, advisory locks) besides its queries.
const poolSize = 10

// patience bounds each step on the server, so that a stuck one fails the test instead of hanging it.
const patience = time.Minute

// host is a server that databases are made on.
type host struct {
	url  string
	make string // what follows CREATE DATABASE and the name
}

// shared is the server of this test binary.
var shared = sync.OnceValues(func() (host, error) {
	if override := os.Getenv("CARILLON_TEST_DATABASE_URL"); override != "" {
		return host{url: override, make: "TEMPLATE template0"}, nil
	}
	srv, err := start(context.Background(), "")
	if err != nil {
		return host{}, err
	}
	// Copying files needs a checkpoint, which costs nothing without fsync.
	return host{url: srv.URL(), make: "TEMPLATE template0 STRATEGY file_copy"}, nil
})

// URL returns the address of a new, empty database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	admin, err := shared()
	if err != nil {
		t.Fatalf("pgtest: start postgres: %v", err)
	}
	name := "carillon_test_" + strings.ToLower(rand.Text())
	address, err := withDatabase(admin.url, name)
	if err != nil {
		t.Fatalf("pgtest: %v", err)
	}
	ctx := context.WithoutCancel(t.Context())
	id := pgx.Identifier{name}.Sanitize()
	if err := execute(ctx, admin.url, "CREATE DATABASE "+id+" "+admin.make); err != nil {
		t.Fatalf("pgtest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := execute(ctx, admin.url, "DROP DATABASE "+id+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the database of the test: %v", err)
		}
	})
	return address
}

// Pool returns a pool of connections to a new, empty database; both end with the test. Another pool to the same
// database can be opened with pool.Config().ConnString().
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// open connects lazily, so that it works while the server is down.
func open(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	cfg, err := pgxpool.ParseConfig(address)
	if err != nil {
		t.Fatalf("pgtest: the address of the database: %v", err)
	}
	cfg.MaxConns = poolSize
	pool, err := pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg)
	if err != nil {
		t.Fatalf("pgtest: open a pool: %v", err)
	}
	t.Cleanup(pool.Close)
	return pool
}

// LeakOptions make goleak pass over the goroutine that waits for the server of the test binary.
func LeakOptions() []goleak.Option {
	return []goleak.Option{goleak.IgnoreAnyFunction("carillon/projections/postgres.(*Server).run")}
}

// withDatabase returns the URL with another database.
func withDatabase(address, name string) (string, error) {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "postgres" && u.Scheme != "postgresql" {
		return "", fmt.Errorf("the address of the test server must be a postgres:// URL")
	}
	u.Path = "/" + name
	return u.String(), nil
}

func execute(ctx context.Context, address, statement string) error {
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close(ctx) }() // the statement has succeeded or failed by now
	_, err = conn.Exec(ctx, statement)
	return err
}
