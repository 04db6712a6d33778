//go:build unix

// Package pgtest starts a real Postgres for tests.
//
// The databases are made on the server that CARILLON_TEST_DATABASE_URL names, whose user must be allowed to make
// databases: make test starts one for all packages of its run by command withpostgres below. Without it, the first test
// of a test binary that asks for a database starts a private server, from a copy of a cluster that is kept in the
// user's cache directory; it ends with the binary, whether that passes, panics or is killed, and its directory is
// removed.
//
// Every database is a new one, for one test, copied from a template that stays on the server, and is dropped after the
// test, so that tests can run in parallel and use advisory locks, NOTIFY and schemas as they like. (A copy takes 10 ms,
// no more than to empty the tables of a used one.) CARILLON_POSTGRES_BIN names the directory of the binaries if they
// are not found by themselves.
//
// Fault tests get a server of their own, which can be killed and restarted, by NewServer.
package pgtest

import (
	"context"
	"crypto/rand"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"carillon/eventstore/storetest/must"
	"carillon/projections/sessionlock"
)

// poolSize is enough for a test that holds a few sessions (LISTEN, advisory locks) besides its queries. A session costs
// the server more than a small test's queries do.
const poolSize = 4

// patience bounds each step on the server, so that a stuck one fails the test instead of hanging it.
const patience = time.Minute

// URLVariable names the server that test databases are made on.
const URLVariable = "CARILLON_TEST_DATABASE_URL"

// host is a server that databases are made on.
type host struct {
	url string

	mu   sync.Mutex
	conn *pgx.Conn // for whole databases; a session for each would cost more than the database
}

// shared is the server of this test binary.
var shared = sync.OnceValues(func() (*host, error) {
	if override := os.Getenv(URLVariable); override != "" {
		return &host{url: override}, nil
	}
	srv, err := start(context.Background(), "")
	if err != nil {
		return nil, err
	}
	return &host{url: srv.URL()}, nil
})

// execute runs statements about whole databases, one after the other.
func (h *host) execute(ctx context.Context, statements ...string) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	ctx, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	if err := h.connect(ctx); err != nil {
		return err
	}
	for _, statement := range statements {
		if _, err := h.conn.Exec(ctx, statement); err != nil {
			return err
		}
	}
	return nil
}

// exists reports whether there is a database of that name.
func (h *host) exists(ctx context.Context, name string) (there bool, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if err := h.connect(ctx); err != nil {
		return false, err
	}
	err = h.conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", name).Scan(&there)
	return there, err
}

// connect opens the session if there is none.
func (h *host) connect(ctx context.Context) (err error) {
	if h.conn == nil || h.conn.IsClosed() {
		h.conn, err = pgx.Connect(ctx, h.url)
	}
	return err
}

// create makes a database and returns its address. Copying files needs a checkpoint, which costs nothing without fsync.
func (h *host) create(ctx context.Context, name, template string) (string, error) {
	address, err := withDatabase(h.url, name)
	if err != nil {
		return "", err
	}
	return address, h.execute(ctx, "CREATE DATABASE "+name+" TEMPLATE "+template+" STRATEGY file_copy")
}

// URL returns the address of a new, empty database, which is dropped when the test ends.
func URL(t testing.TB) string {
	t.Helper()
	return newDatabase(t, "template0")
}

func newDatabase(t testing.TB, template string) string {
	t.Helper()
	server := must.Get(shared())(t)
	ctx, name := context.WithoutCancel(t.Context()), newName()
	address := must.Get(server.create(ctx, name, template))(t)
	t.Cleanup(func() {
		// Postgres looks at ten times a second whether the last session is gone, unless that ended before it looks first.
		must.OK(t, server.execute(ctx, terminate(name), "DROP DATABASE "+name+" WITH (FORCE)"))
	})
	return address
}

// terminate is a statement that ends the sessions of a database and waits for their ends.
func terminate(name string) string {
	return "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '" + name + "'"
}

// newName returns a name that needs no quotes.
func newName() string { return "carillon_test_" + strings.ToLower(rand.Text()) }

// Pool returns a pool of connections to a new, empty database; both end with the test. Another pool to the same
// database can be opened with pool.Config().ConnString().
func Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, URL(t))
}

// Locks returns the locks of a process on the database of a pool, which end with the test.
func Locks(t testing.TB, pool *pgxpool.Pool) *sessionlock.Locks {
	t.Helper()
	locks := sessionlock.New(pool.Config().ConnConfig, slog.New(slog.DiscardHandler))
	t.Cleanup(locks.Close)
	return locks
}

// open connects lazily, so that it works while the server is down.
func open(t testing.TB, address string) *pgxpool.Pool {
	t.Helper()
	cfg := must.Get(pgxpool.ParseConfig(address))(t)
	cfg.MaxConns = poolSize
	pool := must.Get(pgxpool.NewWithConfig(context.WithoutCancel(t.Context()), cfg))(t)
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
