package custody_test

import (
	"context"
	"testing"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/eventstore"
	"carillon/eventstore/storetest/must"
)

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
		if differ, err := p.Differ(t.Context()); err != nil || differ != (what != "nothing") {
			t.Errorf("%s lost: differ = %t, %v", what, differ, err)
		}
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
