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

// poolSize is enough for a test that holds a few sessions (LISTEN, advisory locks) besides its queries. A session costs
// the server more than a small test's queries do.
const poolSize = 4

// patience bounds each step on the server, so that a stuck one fails the test instead of hanging it.
const patience = time.Minute

// host is a server that databases are made on.
type host struct {
	url  string
	make string // what follows the name of the template in CREATE DATABASE
	own  bool   // and ends with the test binary, with all that was left on it

	mu   sync.Mutex
	conn *pgx.Conn // for whole databases; a session for each would cost more than the database
}

// shared is the server of this test binary.
var shared = sync.OnceValues(func() (*host, error) {
	if override := os.Getenv("CARILLON_TEST_DATABASE_URL"); override != "" {
		return &host{url: override}, nil
	}
	srv, err := start(context.Background(), "")
	if err != nil {
		return nil, err
	}
	// Copying files needs a checkpoint, which costs nothing without fsync.
	return &host{url: srv.URL(), make: " STRATEGY file_copy", own: true}, nil
})

// execute runs a statement about whole databases.
func (h *host) execute(ctx context.Context, statement string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if h.conn == nil || h.conn.IsClosed() {
		conn, err := pgx.Connect(ctx, h.url)
		if err != nil {
			return err
		}
		h.conn = conn
	}
	_, err := h.conn.Exec(ctx, statement)
	return err
}

// create makes a database and returns its address.
func (h *host) create(ctx context.Context, name, template string) (string, error) {
	address, err := withDatabase(h.url, name)
	if err != nil {
		return "", err
	}
	return address, h.execute(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template+h.make)
}

// URL returns the address of a new, empty database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return newDatabase(t, "template0")
}

func newDatabase(t testing.TB, template string) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("pgtest: start postgres: %v", err)
	}
	ctx, name := context.WithoutCancel(t.Context()), newName()
	address, err := server.create(ctx, name, template)
	if err != nil {
		t.Fatalf("pgtest: make a database: %v", err)
	}
	t.Cleanup(func() {
		if err := server.execute(ctx, "DROP DATABASE "+name+" WITH (FORCE)"); err != nil {
			t.Errorf("pgtest: drop the database of the test: %v", err)
		}
	})
	return address
}

// newName is one that needs no quotes.
func newName() string { return "carillon_test_" + strings.ToLower(rand.Text()) }

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
