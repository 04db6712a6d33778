package custody_test

import (
	"testing"

	"github.com/google/uuid"
)

// TestALossIsSeenWhileTheServerRuns: what is missed in one place is looked for in the other.
func TestALossIsSeenWhileTheServerRuns(t *testing.T) {
	w := newWorld(t)
	p := w.open()
	id := w.create(p)
	if err := p.vault.Create(t.Context(), uuid.New()); err != nil { // its destination is never made
		t.Fatal(err)
	}
	w.exec("DELETE FROM carillon.data_keys WHERE id <> $1", id)
	for what, lose := range map[string]func(){
		"nothing":  func() {},
		"Postgres": func() { w.exec("DELETE FROM carillon.data_keys") },
	} {
		if err := p.Compare(t.Context()); err != nil {
			t.Fatal(err)
		}
		lose()
		if differ, err := p.Differ(t.Context()); err != nil || differ != (what != "nothing") {
			t.Errorf("%s lost: differ = %t, %v", what, differ, err)
		}
	}
	if err := p.Compare(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.opens(p, id)
}
