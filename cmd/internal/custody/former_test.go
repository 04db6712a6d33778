package custody_test

import (
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/assert"
)

// Keys of the first version were in Postgres alone, and named no key.
func TestFormerHome_unnamedKeys(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		const (
			key = "01935c9a8d69177919820ffb678ac7448dda8236d093ae0048196ee2f1333ebfb6df82f11db0ea8888aee88b4fb636ddb46b0b47" +
				"cd2afe9142ae10aa679ba9ea5133288cd24d76f670768027d7cf9a188c76e987f260b47c2417835707"
			value = "01dc75fbf3292bad0b47c8cfc390ea30458a458bdf19a2a3d037d152fddc5be9d58c6ac2d22d96441e0b3f"
		)
		w.exec("INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2)", alice, unhex(t, key))
		w.made(alice, unhex(t, value))
		w.open()
		if id, named := sealing.WrappedBy(w.read(w.file(alice))); !named || w.rows() != len(w.stored(alice)) {
			t.Errorf("the key names no key: %s; Postgres has %d", id, w.rows())
		}
		w.newPostgres()
		plain, err := w.open().vault.Open(t.Context(), alice, sealing.Secret, unhex(t, value))
		assert.True(t, err == nil && string(plain) == "whsec_c3RvcmVk", "opened %q, error = %v", plain, err)
	})
}

// made records the creation of a destination.
func (w *world) made(id uuid.UUID, secret []byte) {
	w.Helper()
	w.execute(id, destination.Create{
		Organization: alice,
		SecretID:     id,
		Secret:       secret,
		At:           time.Now(),
		Settings:     destination.Settings{Name: "CRM", URL: nowhere},
	})
}

// The home moves when the settings do, in both directions, also if the process is killed at each write of a file, and
// leaves nothing behind.
func TestFormerHome_settings(t *testing.T) {
	w := newWorld(t)
	w.beside = true
	p := w.open()
	move := func() {
		w.killed("opening", func(p process) error { return p.Compare(t.Context()) }, func(moved process) { p = moved })
	}
	ids := []uuid.UUID{w.create(p), w.create(p)}
	beside := w.dir
	for range 2 {
		w.beside, w.former, w.dir = false, beside, filepath.Join(t.TempDir(), "named")
		move()
		ids = append(ids, w.create(p))
		w.opens(p, ids...)
		if _, err := os.Stat(filepath.Join(beside, ids[0].String())); !errors.Is(err, os.ErrNotExist) ||
			w.rows() != len(ids) {
			t.Errorf("%d rows, and the former home: %v", w.rows(), err)
		}
		kept := w.row(ids[0])
		w.beside, w.dir = true, beside
		move()
		w.opens(p, ids...)
		if n := len(w.epochFiles()); w.rows() > 0 || n > 0 || !w.there(ids[0]) {
			t.Errorf("%d rows, %d epoch keys", w.rows(), n)
		}
		assert.True(t, p.Ring.Opens(ids[0], kept) != nil, "what Postgres keeps in its log opens")
	}
}
