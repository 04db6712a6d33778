package delivery

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// slowVault opens everything, as soon as opening is let on.
type slowVault struct {
	Vault

	asked, on chan struct{}
}

func (v slowVault) Open(context.Context, uuid.UUID, sealing.Field, []byte) ([]byte, error) {
	v.asked <- struct{}{}
	<-v.on
	return []byte("https://example.org/hook/topsecret"), nil
}

// TestNothingIsKeptOfWhatWasDeleted: a request is being made out for a destination while it is deleted, and another one,
// from what a read model has not left out yet, afterwards.
func TestNothingIsKeptOfWhatWasDeleted(t *testing.T) {
	t.Parallel()
	vault := slowVault{asked: make(chan struct{}, 1), on: make(chan struct{}, 1)}
	d := &Deliverer{opened: newOpenedTargets(vault), lanes: newLanes(tight)}
	target := &destination.Target{ID: uuid.New(), Address: []byte("sealed")}
	open := func() {
		if _, err := d.opened.open(t.Context(), target, time.Now()); err != nil {
			t.Error(err)
		}
	}
	kept := func() (kept bool) {
		d.opened.mu.Lock()
		defer d.opened.mu.Unlock()
		_, kept = d.opened.known[target.ID]
		return kept
	}
	happens := func(event destination.Event) {
		recorded := &eventstore.Recorded{Stream: destination.Aggregate.Stream(target.ID)}
		d.afterChange(recorded, event)
	}
	vault.on <- struct{}{}
	open()
	if <-vault.asked; !kept() {
		t.Fatal("while it is there nothing is kept: the test shows nothing")
	}
	happens(destination.Revised{})
	if kept() {
		t.Error("what it was before it changed is kept")
	}

	done := make(chan struct{})
	go func() {
		defer close(done)
		open()
	}()
	<-vault.asked
	happens(destination.Deleted{})
	vault.on <- struct{}{}
	<-done
	if kept() {
		t.Error("what was opened while it was deleted is kept")
	}
	vault.on <- struct{}{}
	open()
	if kept() {
		t.Error("what was opened after it was deleted is kept")
	}
}

// TestThoseDeletedLongAgoAreLeftOut: the memory of deletions is bounded, and has the latest of them.
func TestThoseDeletedLongAgoAreLeftOut(t *testing.T) {
	t.Parallel()
	o := newOpenedTargets(nil)
	last := uuid.Nil
	for range 3 * maxOpened {
		last = uuid.New()
		o.end(last)
	}
	o.keep(openedTarget{of: &destination.Target{ID: last}})
	if n := len(o.ended) + len(o.endedBefore); n > 2*maxOpened || len(o.known) > 0 {
		t.Errorf("%d deletions are remembered, and %d targets", n, len(o.known))
	}
}
