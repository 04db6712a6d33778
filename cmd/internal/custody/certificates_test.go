package custody_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/destination"
	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// certify sets a client certificate whose private key is its own id, as it were.
func (w *world) certify(p process, organization uuid.UUID) uuid.UUID {
	w.Helper()
	id := uuid.New()
	must.OK(w, p.vault.Create(w.Context(), id))
	sealed := must.Get(p.vault.Seal(w.Context(), id, sealing.PrivateKey, id[:]))(w)
	w.onCertificate(organization, clientcertificate.SetCertificate{
		Certificate: clientcertificate.Certificate{
			ID:        id,
			Chain:     id.String(),
			NotBefore: time.Now(),
			NotAfter:  time.Now(),
			Key:       sealed,
		},
		At: time.Now(),
	})
	return id
}

func (w *world) onCertificate(organization uuid.UUID, command clientcertificate.Command) {
	w.Helper()
	must.Get(clientcertificate.Aggregate.Execute(w.Context(), w.store, organization, command,
		clientcertificate.Options{}))(w)
}

// opensCertificate reports whether the private key of an organization's certificate opens.
func (w *world) opensCertificate(p process, organization uuid.UUID) bool {
	w.Helper()
	known := must.Get(clientcertificate.Aggregate.Load(w.Context(), w.store, organization))(w)
	shown := known.State.Certificate
	plain, err := p.vault.Open(w.Context(), shown.ID, sealing.PrivateKey, shown.Key)
	return err == nil && slices.Equal(plain, shown.ID[:])
}

// erase takes keys from all places.
func (w *world) erase(owners ...uuid.UUID) {
	w.Helper()
	for _, owner := range owners {
		must.OK(w, os.Remove(w.file(owner)))
	}
	w.exec("DELETE FROM carillon.data_keys WHERE id = ANY($1)", owners)
}

// project writes what the read model has of a certificate, once it has come so far.
func (w *world) project(id, organization uuid.UUID, ended bool) {
	w.Helper()
	w.exec(`INSERT INTO client_certificates.certificates (id, organization, chain, subject, issuer, serial,
			fingerprint, not_before, not_after, set_at, set_by, ended_at)
		VALUES ($1, $2, '', '', '', '', '', now(), now(), now(), '', CASE WHEN $3 THEN now() END)`, id, organization, ended)
}

func TestCertificates_restored(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	ours, hook := uuid.New(), w.create(p)
	id := w.certify(p, ours)
	w.exec("DELETE FROM carillon.data_keys")
	if p = w.open(); !w.opensCertificate(p, ours) || p.Lost().Any() {
		t.Errorf("it did not come back into Postgres; lost: %s", p.Lost())
	}
	must.OK(t, os.RemoveAll(w.dir))
	p = w.open()
	keys, err := custody.InDir(w.dir).Read(t.Context())
	assert.True(t, err == nil && len(keys) == 2 && keys[id] != nil, "the key store has %d keys, %v", len(keys), err)
	w.opens(p, hook)
}

// The key of a certificate that was replaced or removed is shredded again if a backup brings it back, whether the
// read model knows of it or the events alone.
func TestCertificates_endedStayShredded(t *testing.T) {
	for name, projected := range map[string]bool{"by the events": false, "by the read model": true} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			p := w.open()
			ours, theirs := uuid.New(), uuid.New()
			first := w.certify(p, ours)
			second := w.certify(p, ours)
			third := w.certify(p, theirs)
			w.onCertificate(theirs, clientcertificate.Remove{At: time.Now()})
			begun := uuid.New() // its certificate is about to be set
			must.OK(t, p.vault.Create(t.Context(), begun))
			if projected {
				w.project(first, ours, true)
				w.project(second, ours, false)
				w.project(third, theirs, true)
			}
			p = w.open()
			keys, err := custody.InDir(w.dir).Read(t.Context())
			assert.True(t, err == nil && len(keys) == 2 && keys[second] != nil && keys[begun] != nil,
				"the key store has %d keys, %v", len(keys), err)
			for _, id := range []uuid.UUID{first, third} {
				assert.Is(t, assert.Err(p.Find(t.Context(), id)), sealing.ErrShredded, "Postgres has the key of %s", id)
			}
			assert.True(t, w.opensCertificate(p, ours), "the one that is shown does not open")
		})
	}
}

func TestCertificates_lost(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	lost, replaced, stays, hook := uuid.New(), uuid.New(), uuid.New(), w.create(p)
	first, second := w.certify(p, lost), w.certify(p, replaced)
	w.certify(p, stays)
	w.project(first, lost, false)
	w.project(second, replaced, false) // it is behind
	w.certify(p, replaced)
	w.erase(first, second, hook)
	p = w.open()
	if got := p.Lost(); !slices.Equal(got.Certificates, []uuid.UUID{lost}) ||
		!slices.Equal(got.Destinations, []uuid.UUID{hook}) ||
		got.String() != "1 live destinations: "+hook.String()+"; and 1 client certificate, of organization "+
			lost.String() {
		t.Errorf("lost: %s", got)
	}
	assert.True(t, w.opensCertificate(p, stays), "that of another does not open")
}

// A loss is looked for while the server runs, of certificates too.
func TestCertificates_lossIsSeen(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	ours := uuid.New()
	id := w.certify(p, ours)
	w.project(id, ours, false)
	must.OK(t, p.Compare(t.Context()))
	if differ, err := p.Differ(t.Context()); err != nil || differ {
		t.Errorf("nothing lost: differ = %t, %v", differ, err)
	}
	w.exec("DELETE FROM carillon.data_keys")
	if differ, err := p.Differ(t.Context()); err != nil || !differ {
		t.Errorf("lost: differ = %t, %v", differ, err)
	}
	if err := p.Compare(t.Context()); err != nil || !w.opensCertificate(p, ours) {
		t.Errorf("it was not restored: %v", err)
	}
}

// If the places have two keys of one certificate, the one that opens the sealed data counts.
func TestCertificates_differentKeys(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	ours := uuid.New()
	id := w.certify(p, ours)
	right := w.row(id)
	w.erase(id)
	must.OK(t, p.vault.Create(t.Context(), id)) // another one, in both
	w.exec("UPDATE carillon.data_keys SET wrapped = $2 WHERE id = $1", id, right)
	p = w.open()
	assert.True(t, w.opensCertificate(p, ours), "the wrong one counts")
}

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
