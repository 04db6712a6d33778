//go:build unix

package pgtest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"
)

// Template is a database that tests begin with a copy of. It is made once on a server, by whichever test binary wants
// it first: copying tables costs a fraction of making them.
type Template struct {
	name    string
	prepare func(context.Context, *pgxpool.Pool) error
	made    func() error
}

// NewTemplate returns a template that prepare makes of an empty database. Its name is a digest of content, which must
// differ wherever prepare makes something else.
func NewTemplate(content string, prepare func(context.Context, *pgxpool.Pool) error) *Template {
	sum := sha256.Sum256([]byte(content))
	x := &Template{name: "carillon_template_" + hex.EncodeToString(sum[:8]), prepare: prepare}
	x.made = sync.OnceValue(x.make)
	return x
}

// Pool returns a pool of connections to a new copy; both end with the test.
func (x *Template) Pool(t testing.TB) *pgxpool.Pool {
	t.Helper()
	return open(t, x.URL(t))
}

// URL returns the address of a new copy, which is dropped when the test ends.
func (x *Template) URL(t testing.TB) string {
	t.Helper()
	if err := x.made(); err != nil {
		t.Fatalf("pgtest: prepare a template: %v", err)
	}
	return newDatabase(t, x.name)
}

// duplicateDatabase is the code of an error about a database whose name is taken.
const duplicateDatabase = "42P04"

// make prepares a database under another name and renames it, so that the template is whole even if a test binary is
// killed or two of them make it at once.
func (x *Template) make() error {
	server, err := shared()
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	there, err := server.exists(ctx, x.name)
	if err != nil || there {
		return err
	}
	name := newName()
	address, err := server.create(ctx, name, "template0")
	if err != nil {
		return err
	}
	if err := x.fill(ctx, address); err != nil {
		return err
	}
	// A session ends after its client has, and nothing is renamed or copied beside one.
	err = server.execute(ctx, terminate(name), "ALTER DATABASE "+name+" RENAME TO "+x.name)
	if refused, ok := errors.AsType[*pgconn.PgError](err); ok && refused.Code == duplicateDatabase {
		return server.execute(ctx, "DROP DATABASE "+name)
	}
	return err
}

func (x *Template) fill(ctx context.Context, address string) error {
	pool, err := pgxpool.New(ctx, address)
	if err != nil {
		return err
	}
	defer pool.Close()
	return x.prepare(ctx, pool)
}
