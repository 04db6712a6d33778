package custody_test

import (
	"bytes"
	"context"
	"encoding/hex"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"carillon/aggregates/destination"
	"carillon/cmd/internal/custody"
	"carillon/command/irreversible"
	"carillon/command/sealing"
	"carillon/eventstore/esdb"
	"carillon/eventstore/nodetest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections"
	"carillon/projections/clientcertificates"
	"carillon/projections/destinations"
	"carillon/projections/pgtest"
	"carillon/projections/projecttest"
)

var (
	alice  = uuid.MustParse("22222222-2222-4222-8222-222222222222")
	master = bytes.Repeat([]byte{7}, 32)
	second = bytes.Repeat([]byte{8}, 32)
)

// world is an installation: a Postgres, an event store, and directories.
type world struct {
	*testing.T
	pool      *pgxpool.Pool
	store     *esdb.Store
	dir, copy string
	masters   [][]byte
	database  string // of the copy; empty: the directory
	later     time.Duration
	differ    bool   // the clocks
	former    string // the directory of the home by other settings
	// The home is the directory, beside an embedded store; else Postgres, and the directory has a copy.
	beside bool
}

func newWorld(t *testing.T) *world {
	t.Helper()
	t.Parallel()
	w := &world{
		T:       t,
		store:   nodetest.Start(t),
		dir:     filepath.Join(t.TempDir(), "keys"),
		copy:    t.TempDir(),
		masters: [][]byte{master},
	}
	w.newPostgres()
	return w
}

// newPostgres replaces Postgres, as if it was lost.
func (w *world) newPostgres() {
	w.Helper()
	w.pool = projecttest.Pool(w.T)
	for _, model := range []projections.ReadModel{destinations.ReadModel, clientcertificates.ReadModel} {
		must.OK(w, projections.EnsureSchema(w.Context(), w.pool, model))
	}
}

// process is one process of the installation, as far as its keys go.
type process struct {
	*custody.Custody
	vault *sealing.Vault
}

// pass lets everything happen, unless clocks differ.
func (w *world) pass(ctx context.Context, _ irreversible.Act, due irreversible.Due) (time.Time, error) {
	now := time.Now().Add(w.later)
	if w.differ || due == nil {
		return now, map[bool]error{true: irreversible.ErrClocks}[w.differ]
	}
	_, err := due(ctx, now)
	return now, err
}

func (w *world) make() process {
	w.Helper()
	ring := must.Get(sealing.NewRing(w.masters[0], w.masters[1:]...))(w)
	cfg := custody.Config{
		Pool:     w.pool,
		Locks:    pgtest.Locks(w.T, w.pool),
		Ring:     ring,
		Store:    w.store,
		Dir:      w.dir,
		DataDir:  w.copy,
		Former:   w.former,
		Database: w.database,
		Pass:     w.pass,
		Log:      slog.New(slog.NewTextHandler(w.Output(), nil)),
	}
	if w.beside {
		cfg.File = w.dir
	}
	if w.beside || w.database != "" {
		cfg.Dir = ""
	}
	c := must.Get(custody.New(cfg))(w)
	w.Cleanup(c.Close)
	return process{c, sealing.NewVaultOn(c, ring)}
}

func (w *world) open() process {
	w.Helper()
	p := w.make()
	must.OK(w, p.Compare(w.Context()))
	return p
}

// create makes a destination whose secret is its own id.
func (w *world) create(p process) uuid.UUID {
	w.Helper()
	id := uuid.New()
	must.OK(w, p.vault.Create(w.Context(), id))
	sealed := must.Get(p.vault.Seal(w.Context(), id, sealing.Secret, id[:]))(w)
	w.execute(id, destination.Create{
		Organization: alice,
		SecretID:     id,
		Secret:       sealed,
		At:           time.Now(),
		Settings:     destination.Settings{Name: "CRM", URL: nowhere},
	})
	return id
}

const nowhere = "https://example.org/hook"

func (w *world) execute(id uuid.UUID, command destination.Command) {
	w.Helper()
	must.Get(destination.Aggregate.Execute(w.Context(), w.store, id, command,
		destination.Options{CommandID: uuid.New()}))(w)
}

// delete ends a destination; its key is yet to be shredded.
func (w *world) delete(id uuid.UUID) {
	w.Helper()
	w.execute(id, destination.Delete{Organization: alice, At: time.Now()})
}

// opens expects that a process opens the secrets of destinations.
func (w *world) opens(p process, ids ...uuid.UUID) {
	w.Helper()
	for _, id := range ids {
		known := must.Get(destination.Aggregate.Load(w.Context(), w.store, id))(w)
		plain, err := p.vault.Open(w.Context(), id, sealing.Secret, known.State.Secrets[0].Sealed)
		assert.True(w, err == nil && bytes.Equal(plain, id[:]), "the secret of %s opened to %x, %v", id, plain, err)
	}
}

func (w *world) exec(sql string, arguments ...any) {
	w.Helper()
	must.Get(w.pool.Exec(w.Context(), sql, arguments...))(w)
}

func (w *world) row(id uuid.UUID) (wrapped []byte) {
	w.Helper()
	must.OK(w, w.pool.QueryRow(w.Context(), "SELECT wrapped FROM carillon.data_keys WHERE id = $1", id).Scan(&wrapped))
	return wrapped
}

// file returns the path of the file of a key.
func (w *world) file(id uuid.UUID) string { return filepath.Join(w.dir, id.String()) }

func (w *world) there(id uuid.UUID) bool {
	_, err := os.Stat(w.file(id))
	return err == nil
}

// epochFiles returns the paths of the epoch keys in both directories.
func (w *world) epochFiles() (paths []string) {
	w.Helper()
	for _, dir := range []string{w.dir, w.copy} {
		found := must.Get(filepath.Glob(filepath.Join(dir, "epoch-*")))(w)
		paths = append(paths, found...)
	}
	return paths
}

// kinds runs a test for a home in Postgres with a copy, and for a directory alone.
func kinds(t *testing.T, test func(*testing.T, *world)) {
	t.Helper()
	for name, beside := range map[string]bool{"postgres": false, "directory": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			w.beside = beside
			test(t, w)
		})
	}
}

// rows returns how many keys Postgres has.
func (w *world) rows() (n int) {
	w.Helper()
	must.OK(w, w.pool.QueryRow(w.Context(), "SELECT count(*) FROM carillon.data_keys").Scan(&n))
	return n
}

func (w *world) read(path string) []byte {
	w.Helper()
	data, err := os.ReadFile(path) //nolint:gosec // the test's own
	must.OK(w, err)
	return data
}

func (w *world) write(path string, data []byte) {
	w.Helper()
	must.OK(w, os.WriteFile(path, data, 0o600))
}

func unhex(t *testing.T, text string) []byte {
	t.Helper()
	raw := must.Get(hex.DecodeString(text))(t)
	return raw
}
