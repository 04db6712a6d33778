package custody_test

import (
	"os"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
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
			assert.Equal(t, w.opensCertificate(p, ours), true, "the one that is shown does not open")
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
	assert.Equal(t, w.opensCertificate(p, stays), true, "that of another does not open")
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
