package custody_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
	"carillon/projections/pgtest"
)

// A key that a backup of one place brings back is shredded again.
func TestShreddedKeysStayShredded(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		gone, stays := w.create(p), w.create(p)
		stored, err := p.Find(t.Context(), gone)
		file := w.read(w.file(gone))
		w.delete(gone)
		must.OK(t, errors.Join(err, p.vault.Shred(t.Context(), gone)))
		for what, back := range map[string]func(){
			"the directory": func() { w.write(w.file(gone), file) },
			"Postgres": func() {
				w.exec("INSERT INTO carillon.data_keys (id, wrapped) VALUES ($1, $2)", gone, stored)
			},
		} {
			back()
			p := w.open()
			assert.Is(t, assert.Err(p.Find(t.Context(), gone)), sealing.ErrShredded, "%s: it is back", what)
			assert.True(t, !w.there(gone) && w.rows() == len(w.stored(stays)), "%s: it is back in a place", what)
			w.opens(p, stays)
		}
	})
}

// stored lists keys if the home is Postgres; a directory leaves nothing there.
func (w *world) stored(ids ...uuid.UUID) []uuid.UUID {
	if w.beside {
		return nil
	}
	return ids
}

func TestShreddingIsFinished(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		gone := w.create(p)
		w.delete(gone)
		must.OK(t, p.Compare(t.Context()))
		_, err := p.Find(t.Context(), gone)
		assert.True(t, errors.Is(err, sealing.ErrShredded) && !w.there(gone), "it is there: %v", err)
	})
}

// A shredded key is overwritten before its name is gone: another name of the same file shows it.
func TestShreddingOverwrites(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		gone := w.create(p)
		other := w.file(gone) + ".link"
		must.OK(t, os.Link(w.file(gone), other))
		must.OK(t, p.vault.Shred(t.Context(), gone))
		left := bytes.Trim(w.read(other), "\x00")
		assert.True(t, len(left) == 0 && !w.there(gone), "%d bytes are left", len(left))
	})
}

// Each file, and each row, is damaged by itself: the copy repairs the home, and the home the copy.
func TestDamageIsRepaired(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	ids := []uuid.UUID{w.create(p), w.create(p), w.create(p)}
	for _, path := range append(w.epochFiles(), w.file(ids[0]), w.file(ids[1])) {
		whole := w.read(path)
		flipped := bytes.Clone(whole)
		flipped[len(flipped)/2] ^= 0x55
		for what, damaged := range map[string][]byte{"flipped": flipped, "cut short": whole[:len(whole)/2],
			"empty": {}} {
			w.write(path, damaged)
			p := w.open()
			w.opens(p, ids...)
			lost := p.Lost()
			must.True(t, !lost.Any(), "%s %s: lost %v", path, what, lost)
		}
	}
	w.exec("UPDATE carillon.data_keys SET wrapped = set_byte(wrapped, 29, 255 - get_byte(wrapped, 29)) "+
		"WHERE id = $1", ids[0])
	w.opens(w.open(), ids...)
	w.newPostgres()
	w.opens(w.open(), ids...)
}

// A rotation that finds the key of the home damaged, or gone, is earlier than the comparison: the copy stays the key.
func TestCreateTakesTheCopy(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	for _, loss := range []string{"UPDATE carillon.data_keys SET wrapped = '' WHERE id = $1",
		"DELETE FROM carillon.data_keys WHERE id = $1"} {
		id := w.create(p)
		w.exec(loss, id)
		must.OK(t, p.vault.Create(t.Context(), id))
		w.opens(w.open(), id)
	}
}

// A directory without a copy: a damaged, missing or older file is named, nothing overwrites it, and the right one
// repairs it.
func TestDamageIsNamed(t *testing.T) {
	w := newWorld(t)
	w.beside = true
	p := w.open()
	id, stays := w.create(p), w.create(p)
	whole := w.read(w.file(id))
	for what, damaged := range map[string][]byte{"cut short": whole[:40], "empty": {},
		"another's": w.read(w.file(stays)), "missing": nil} {
		if damaged == nil {
			must.OK(t, os.Remove(w.file(id)))
		} else {
			w.write(w.file(id), damaged)
		}
		p := w.open()
		if !slices.Equal(p.Lost().Destinations, []uuid.UUID{id}) {
			t.Errorf("%s: lost %v", what, p.Lost())
		}
		if damaged != nil && !bytes.Equal(w.read(w.file(id)), damaged) {
			t.Errorf("%s: it was overwritten", what)
		}
		w.opens(p, stays)
		w.write(w.file(id), whole)
		w.opens(w.open(), id, stays)
	}
}

func TestDirectoryThatIsGoneIsTrouble(t *testing.T) {
	w := newWorld(t)
	w.beside = true
	p := w.open()
	w.create(p)
	must.OK(t, os.Rename(w.dir, w.dir+".away"))
	if _, err := p.Differ(t.Context()); err == nil || p.Trouble() == nil {
		t.Errorf("differ: %v, trouble %v", err, p.Trouble())
	}
	must.OK(t, os.Rename(w.dir+".away", w.dir))
	if differ, err := p.Differ(t.Context()); err != nil || !differ {
		t.Errorf("it is back: differ = %t, %v", differ, err)
	}
	if err := p.Compare(t.Context()); err != nil || p.Trouble() != nil {
		t.Errorf("compare: %v, trouble %v", err, p.Trouble())
	}
}

// A file that others can read is refused as leaked.
func TestReadableKeysAreRefused(t *testing.T) {
	w := newWorld(t)
	w.beside = true
	id := w.create(w.open())
	must.OK(t, os.Chmod(w.file(id), 0o644)) //nolint:gosec // that is the test
	err := w.make().Compare(t.Context())
	assert.True(t, err != nil && strings.Contains(err.Error(), "chmod 600"), "error = %v", err)
}

func TestUnwritableDirectoryCreatesNothing(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		id := w.create(p)
		full := errors.New("no space left on device")
		p.FailWrites(func() error { return full })
		assert.Is(t, p.vault.Create(t.Context(), uuid.New()), full, "create")
		w.delete(id)
		assert.Is(t, p.vault.Shred(t.Context(), id), full, "shred")
		p.FailWrites(nil)
		w.create(p)
		must.OK(t, p.Compare(t.Context()))
		assert.True(t, !w.there(id), "it is not shredded now either")
	})
}

func TestCopyInSecondDatabase(t *testing.T) {
	w := newWorld(t)
	w.database = pgtest.URL(t)
	p := w.open()
	id, gone := w.create(p), w.create(p)
	w.delete(gone)
	must.OK(t, p.vault.Shred(t.Context(), gone))
	w.newPostgres()
	p = w.open()
	w.opens(p, id)
	assert.Is(t, assert.Err(p.Find(t.Context(), gone)), sealing.ErrShredded, "the shredded one")
	w.database = pgtest.URL(t)
	w.opens(w.open(), id)
	w.database = "postgres://unknown:hunter2@127.0.0.1:1/keys"
	p = w.open()
	if p.Trouble() == nil || p.Lost().Any() {
		t.Errorf("trouble %v, lost %v", p.Trouble(), p.Lost())
	}
	w.opens(p, id)
	err := p.vault.Create(t.Context(), uuid.New())
	assert.True(t, err != nil && !strings.Contains(err.Error(), "hunter2"), "create: %v", err)
}

// A copy that is older, or has keys of another installation, is filled, and the other installation's keys stay.
func TestCopyOfOthersStays(t *testing.T) {
	w := newWorld(t)
	others := newMaster(t, second)
	p := w.open()
	id := w.create(p)
	must.OK(t, os.Remove(w.file(id)))
	alien := uuid.New()
	must.OK(t, others.Create(t.Context(), alien))
	w.write(w.file(alien), others.keys[alien])
	p = w.open()
	w.opens(p, id)
	if !w.there(id) || !bytes.Equal(w.read(w.file(alien)), others.keys[alien]) || w.rows() != 1 || p.Lost().Any() {
		t.Errorf("%d rows, lost %v", w.rows(), p.Lost())
	}
	differ, err := p.Differ(t.Context())
	assert.True(t, err == nil && !differ, "differ = %t, %v", differ, err)
}

// otherInstallation has data keys under another master key.
type otherInstallation struct {
	*sealing.Vault
	keys map[uuid.UUID][]byte
}

func newMaster(t *testing.T, key []byte) otherInstallation {
	t.Helper()
	o := otherInstallation{keys: map[uuid.UUID][]byte{}}
	o.Vault = must.Get(sealing.NewVault(o, key))(t)
	return o
}

func (o otherInstallation) Add(_ context.Context, owner uuid.UUID, wrapped []byte) error {
	o.keys[owner] = wrapped
	return nil
}

func (o otherInstallation) Find(_ context.Context, owner uuid.UUID) ([]byte, error) {
	return o.keys[owner], nil
}

func (o otherInstallation) Delete(context.Context, uuid.UUID) error { return nil }

func TestLostKeysAreOfLiveDestinations(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		lost, deleted, stays := w.create(p), w.create(p), w.create(p)
		w.delete(deleted)
		w.erase(lost, deleted)
		p = w.open()
		if !slices.Equal(p.Lost().Destinations, []uuid.UUID{lost}) {
			t.Errorf("lost %v, want %s", p.Lost(), lost)
		}
		w.opens(p, stays)
		p.AcceptLost = true
		must.OK(t, p.vault.Create(t.Context(), lost)) // what rotating its secret does
		if err := p.Compare(t.Context()); err != nil || p.Lost().Any() {
			t.Errorf("with a new key: lost %v, %v", p.Lost(), err)
		}
	})
}

func TestOtherMasterKeyIsRefused(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		id := w.create(w.open())
		w.masters = [][]byte{second}
		var wrong *custody.WrongMasterError
		if err := w.make().Compare(t.Context()); !errors.As(err, &wrong) {
			t.Errorf("by the key-check value: %v", err)
		}
		w.newPostgres()
		if err := w.make().Compare(t.Context()); !errors.As(err, &wrong) {
			t.Errorf("by the keys: %v", err)
		}
		w.masters = [][]byte{master}
		w.opens(w.open(), id)
	})
}

// TestLossIsSeenWhileRunning: a key that one place misses is searched in the other.
func TestLossIsSeenWhileRunning(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	id := w.create(p)
	must.OK(t, p.vault.Create(t.Context(), uuid.New())) // its destination is never made
	w.exec("DELETE FROM carillon.data_keys WHERE id <> $1", id)
	for what, lose := range map[string]func(){
		"nothing":  func() {},
		"Postgres": func() { w.exec("DELETE FROM carillon.data_keys") },
	} {
		must.OK(t, p.Compare(t.Context()))
		lose()
		assert.Equal(t, must.Get(p.Differ(t.Context()))(t), what != "nothing", "%s lost: differ", what)
	}
	must.OK(t, p.Compare(t.Context()))
	w.opens(p, id)
}

// away is an event store that can't be reached.
type away struct{ custody.Store }

func (away) Head(context.Context) (eventstore.Position, error) {
	return eventstore.Start, eventstore.ErrUnavailable
}

// TestWithoutTheEventStoreNothingIsCalledLost: a destination without a key may have been deleted.
func TestWithoutTheEventStoreNothingIsCalledLost(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	id, stays := w.create(p), w.create(p)
	w.delete(id)
	must.OK(t, p.vault.Shred(t.Context(), id))
	w.exec("INSERT INTO destinations.destinations (id, organization, name, shown_url, settings, "+
		"status, created_at, updated_at, revision) "+
		// It is behind.
		"SELECT id, id, '', '', '{}', 'enabled', now(), now(), 0 FROM unnest($1::uuid[]) id", []uuid.UUID{id, stays})
	p = w.make()
	p.Store = away{w.store}
	if err := p.Compare(t.Context()); err != nil || p.Lost().Any() {
		t.Errorf("lost %v, error = %v", p.Lost(), err)
	}
	w.opens(p, stays)
}
