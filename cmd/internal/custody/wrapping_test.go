package custody_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/command/irreversible"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// A shredded key that Postgres has kept opens no more after a renewal, and the old epoch key is overwritten.
func TestRenewalDestroysTheEpoch(t *testing.T) {
	w := newWorld(t)
	p, other := w.open(), w.open()
	gone, stays := w.create(p), w.create(other)
	kept, before := w.row(gone), w.epochFiles()
	var links []string
	for i, path := range before {
		links = append(links, filepath.Join(t.TempDir(), string(rune('a'+i))))
		must.OK(t, os.Link(path, links[i]))
	}
	w.delete(gone)
	must.OK(t, p.vault.Shred(t.Context(), gone))
	if err := p.Ring.Opens(gone, kept); err != nil || len(before) != 2 {
		t.Fatalf("before: %v in %v", err, before) // the test could not fail
	}
	must.OK(t, p.Renew(t.Context()))
	for i, link := range links {
		if left := bytes.Trim(w.read(link), "\x00"); len(left) > 0 {
			t.Errorf("%s has the old epoch key", before[i])
		}
	}
	for _, p := range []process{p, w.open()} {
		assert.True(t, p.Ring.Opens(gone, kept) != nil, "a shredded key that Postgres has kept opens")
		w.opens(p, stays)
	}
	// The other process has the old epoch key in memory: it takes in the new one.
	late := w.create(other)
	w.opens(other, stays, late)
	w.opens(p, late)
}

// Nothing is erased by a clock that others contradict: neither the epoch key nor a file that may be written just now.
func TestErasureByTimeComparesClocks(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	w.create(p)
	leftover, epochs := filepath.Join(w.dir, ".partial-1"), w.epochFiles()
	must.OK(t, os.WriteFile(leftover, []byte("key"), 0o600))
	w.exec("UPDATE carillon.key_state SET shredded_at = now() - interval '13 hours'")
	w.later, w.differ = time.Hour, true
	w.open()
	assert.Is(t, p.RenewIfDue(t.Context()), irreversible.ErrClocks, "renewed while clocks differ")
	if _, err := os.Stat(leftover); err != nil || !slices.Equal(w.epochFiles(), epochs) {
		t.Errorf("erased while clocks differ: %v, %q", err, w.epochFiles())
	}
	w.differ = false
	if err := p.RenewIfDue(t.Context()); err != nil || slices.Equal(w.epochFiles(), epochs) {
		t.Errorf("not renewed: %v", err)
	}
	w.whole()
}

// The process is killed at each write of a file, and again after it.
func TestKilledRenewalAndRotation(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		w.masters = [][]byte{master, second}
		p := w.open()
		ids := []uuid.UUID{w.create(p), w.create(p)}
		for what, change := range map[string]func(process) error{
			"renewal": func(p process) error { return p.Renew(t.Context()) },
			"rotation": func(p process) error {
				next := second
				if id, err := sealing.MasterID(second); err != nil || p.Ring.Base() == id {
					next = master
				}
				return p.RotateMaster(t.Context(), next, func() error { return nil })
			},
		} {
			w.killed(what, change, func(p process) { w.opens(p, ids...) })
		}
		w.opens(w.open(), ids...)
		if !w.beside {
			w.newPostgres()
			w.opens(w.open(), ids...)
		}
	})
}

// killed runs a change that is killed at its first, second, … write of a file, until it is not; each time another
// process opens the installation.
func (w *world) killed(what string, change func(process) error, opened func(process)) {
	w.Helper()
	killed := errors.New("killed here")
	for n := 0; ; n++ {
		p := w.make()
		if what != "opening" {
			p = w.open()
		}
		writes := 0
		p.FailWrites(func() error {
			if writes++; writes > n {
				return killed
			}
			return nil
		})
		err := change(p)
		must.True(w, err == nil || errors.Is(err, killed), "%s, write %d: %v", what, n, err)
		p.Close()
		w.later += time.Hour // the next process erases what this one left
		if what != "opening" || err == nil {
			opened(w.open())
		}
		if err == nil {
			w.whole()
			return
		}
	}
}

// whole expects no file that is not whole.
func (w *world) whole() {
	w.Helper()
	left, err := filepath.Glob(filepath.Join(w.dir, ".*"))
	assert.True(w, err == nil && len(left) == 0, "left: %q, %v", left, err)
}

// The process is killed at each write while it makes a key: then another makes it, and nothing of the first is left.
func TestKilledCreation(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		stays := w.create(w.open())
		id := uuid.New()
		w.killed("creation", func(p process) error { return p.vault.Create(t.Context(), id) },
			func(p process) { w.opens(p, stays) })
		p := w.open()
		sealed := must.Get(p.vault.Seal(t.Context(), id, sealing.Secret, id[:]))(t)
		w.made(id, sealed)
		w.opens(w.open(), id, stays)
	})
}

// A process that was killed between giving a key its name and removing the other one leaves two names of one file.
func TestSecondNameOfKeyIsRemoved(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		id := w.create(w.open())
		must.OK(t, os.Link(w.file(id), filepath.Join(w.dir, ".partial-1")))
		w.later = time.Hour
		before := w.read(w.file(id))
		w.opens(w.open(), id)
		assert.True(t, bytes.Equal(w.read(w.file(id)), before), "the key was overwritten")
		w.whole()
	})
}

func TestRotationEndsTheOldMasterKey(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		p := w.open()
		id := w.create(p)
		must.OK(t, p.RotateMaster(t.Context(), second, func() error { return nil }))
		w.opens(p, id, w.create(p))
		var wrong *custody.WrongMasterError
		err := w.make().Compare(t.Context())
		assert.True(t, errors.As(err, &wrong), "the old master key: %v", err)
		w.masters = [][]byte{second}
		w.opens(w.open(), id)
	})
}

// Two processes create destinations while a third renews and rotates.
func TestProcessesShareKeys(t *testing.T) {
	kinds(t, func(t *testing.T, w *world) {
		w.masters = [][]byte{master, second}
		processes := []process{w.open(), w.open(), w.open()}
		made := make(chan uuid.UUID)
		for _, p := range processes[:2] {
			go func() {
				for range 20 {
					made <- w.create(p)
				}
			}()
		}
		changed := make(chan error, 1)
		go func() {
			var err error
			for range 3 {
				err = errors.Join(err, processes[2].Renew(t.Context()))
			}
			changed <- errors.Join(err, processes[2].RotateMaster(t.Context(), second, func() error { return nil }))
		}()
		var ids []uuid.UUID
		for range 40 {
			ids = append(ids, <-made)
		}
		must.OK(t, <-changed)
		for _, p := range processes {
			w.opens(p, ids...)
		}
		w.masters = [][]byte{second}
		w.opens(w.open(), ids...)
		w.newPostgres()
		w.opens(w.open(), ids...)
	})
}
