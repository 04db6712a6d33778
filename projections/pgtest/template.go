//go:build unix

package pgtest

import (
	"context"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
)

// Template is a database that tests begin with a copy of. It is made once in a test binary: to copy tables costs a
// fraction of making them.
type Template struct {
	prepare func(context.Context, *pgxpool.Pool) error
	made    func() (name string, err error)
}

// NewTemplate is a template that prepare makes of an empty database when the first test wants a copy.
func NewTemplate(prepare func(context.Context, *pgxpool.Pool) error) *Template {
	x := &Template{prepare: prepare}
	x.made = sync.OnceValues(x.make)
	return x
}

// Pool returns a pool of connections to a new copy; both end with the test.
func (x *Template) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, x.URL(t))
}

// URL returns the address of a new copy, which is dropped when the test ends. On a server that is not the test binary's
// own, where a template would be left behind, the database is prepared by itself.
func (x *Template) URL(t testing.TB) string {
	t.Helper()
	server, err := shared()
	if err != nil {
		t.Fatalf("pgtest: start postgres: %v", err)
	}
	if !server.own {
		address := URL(t)
		if err := x.fill(t.Context(), address); err != nil {
			t.Fatalf("pgtest: prepare a database: %v", err)
		}
		return address
	}
	name, err := x.made()
	if err != nil {
		t.Fatalf("pgtest: prepare a template: %v", err)
	}
	return newDatabase(t, name)
}

func (x *Template) fill(ctx context.Context, address string) error {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	return x.prepare(ctx, pool)
}

func (x *Template) make() (name string, err error) {
	server, err := shared()
	if err != nil {
		return "", err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	name = newName()
	address, err := server.create(ctx, name, "template0")
	if err != nil {
		return "", err
	}
	if err := x.fill(ctx, address); err != nil {
		return "", err
	}
	// A session ends after its client has, and nothing is copied beside one.
	return name, server.execute(ctx, "SELECT pg_terminate_backend(pid, 60000) FROM pg_stat_activity WHERE datname = '"+name+"'")
}
