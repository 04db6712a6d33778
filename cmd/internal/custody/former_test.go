package custody_test

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
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
		if err != nil || string(plain) != "whsec_c3RvcmVk" {
			t.Errorf("opened %q, error = %v", plain, err)
		}
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

// twoPlaces has the rows that a version left that kept all keys in two places: testdata/two-places.
type twoPlaces struct {
	Rows, Sealed                         map[uuid.UUID]string
	Master, Wrapping                     string
	Deleted, OnlyInPostgres, OnlyInSlots uuid.UUID
	Orphan                               uuid.UUID
}

// leave puts it into a world, and returns the destinations that live.
func (w *world) leave() (left twoPlaces, live []uuid.UUID) {
	w.Helper()
	from := filepath.Join("testdata", "two-places")
	if err := json.Unmarshal(w.read(filepath.Join(from, "postgres.json")), &left); err != nil {
		w.Fatal(err)
	}
	if err := os.MkdirAll(w.dir, 0o700); err != nil {
		w.Fatal(err)
	}
	for name, to := range map[string]string{"keys/slots": w.dir + "/slots", "keys/epoch.key": w.dir + "/epoch.key",
		"epoch.key": w.copy + "/epoch.key"} {
		w.write(to, w.read(filepath.Join(from, name)))
	}
	for id, wrapped := range left.Rows {
		w.exec("INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2)", id, unhex(w.T, wrapped))
	}
	w.exec("INSERT INTO carillon.key_state (master, wrapping) VALUES ($1, $2)", unhex(w.T, left.Master),
		unhex(w.T, left.Wrapping))
	for id, sealed := range left.Sealed {
		w.made(id, unhex(w.T, sealed))
		if id == left.Deleted {
			w.delete(id)
		} else {
			live = append(live, id)
		}
	}
	return left, live
}

// Keys of the version before are taken in, also if the process is killed at each write of a file.
func TestFormerHome_twoPlaces(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		left, live := w.leave()
		if len(live) != 3 {
			t.Fatalf("%d destinations", len(live))
		}
		var ready process
		w.killed("opening", func(p process) error { return p.Compare(t.Context()) }, func(p process) { ready = p })
		w.opens(ready, live...)
		if _, err := ready.Find(t.Context(), left.Deleted); !errors.Is(err, sealing.ErrShredded) ||
			w.there(left.Deleted) {
			t.Errorf("the shredded one: %v", err)
		}
		if _, err := ready.Find(t.Context(), left.Orphan); err != nil || !w.there(left.Orphan) {
			t.Errorf("the one that is about to be used: %v", err)
		}
		for _, path := range []string{w.dir + "/slots", w.dir + "/epoch.key", w.copy + "/epoch.key"} {
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s is there: %v", path, err)
			}
		}
		if n := w.rows(); w.beside && n > 0 || !w.beside && n != len(live)+1 {
			t.Errorf("Postgres has %d keys", n)
		}
		if n := len(w.epochFiles()); w.beside && n > 0 || !w.beside && n != 2 {
			t.Errorf("%d epoch keys", n)
		}
		for id, wrapped := range left.Rows {
			if w.beside && ready.Ring.Opens(id, unhex(t, wrapped)) == nil {
				t.Error("what Postgres keeps in its log opens")
			}
		}
		w.newPostgres()
		w.opens(w.open(), live...)
	})
}

// The home moves when the settings do, in both directions, and leaves nothing behind.
func TestFormerHome_settings(t *testing.T) {
	w := newWorld(t)
	w.beside = true
	p := w.open()
	ids := []uuid.UUID{w.create(p), w.create(p)}
	beside := w.dir
	for range 2 {
		w.beside, w.former, w.dir = false, beside, filepath.Join(t.TempDir(), "named")
		p = w.open()
		ids = append(ids, w.create(p))
		w.opens(p, ids...)
		if _, err := os.Stat(filepath.Join(beside, ids[0].String())); !errors.Is(err, os.ErrNotExist) ||
			w.rows() != len(ids) {
			t.Errorf("%d rows, and the former home: %v", w.rows(), err)
		}
		w.beside, w.dir = true, beside
		p = w.open()
		w.opens(p, ids...)
		if w.rows() > 0 || !w.there(ids[0]) {
			t.Errorf("%d rows", w.rows())
		}
	}
}
