package treehead_test

import (
	"testing"
	"time"

	"carillon/aggregates/treehead"
	"carillon/eventstore/aggregatetest"
)

var signed = treehead.Signed{
	Number:    7,
	Size:      1000,
	Root:      []byte("root"),
	At:        time.Date(2026, 11, 27, 12, 0, 0, 0, time.UTC),
	Key:       []byte("public key"),
	Signature: []byte("signature"),
	Leaves:    []byte("leaves"),
	Nodes:     []byte("nodes"),
	Stream:    "feed-0c000000-0000-4000-8000-000000000001",
	Revision:  3,
}

func TestStoredForms(t *testing.T) {
	t.Parallel()
	aggregatetest.Golden[treehead.Event](t, treehead.Events, signed)
}

func TestEachCommandInEachState(t *testing.T) {
	t.Parallel()
	other := treehead.Sign(signed)
	other.Signature = []byte("another")
	aggregatetest.Table(t, treehead.Aggregate).
		State("none").
		State("signed", signed).
		When(treehead.Sign(signed), "Signed", "").
		When(other, "Signed", treehead.ErrTaken)
}

// Stream ids of recorded heads must never change.
func TestStreamIDsNeverChange(t *testing.T) {
	t.Parallel()
	if got := treehead.StreamID(0).String(); got != "ad16f385-9a95-54b0-add6-f775ef181f34" {
		t.Errorf("the stream of the first head is %s now", got)
	}
}
