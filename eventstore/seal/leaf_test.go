package seal_test

import (
	"encoding/hex"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

func recorded() eventstore.Recorded {
	return eventstore.Recorded{
		ID:       uuid.MustParse("0c000000-0000-4000-8000-000000000001"),
		Stream:   "feed-0c000000-0000-4000-8000-000000000002",
		Revision: 7,
		Position: eventstore.Position{Commit: 9, Prepare: 9},
		Type:     "feed.created.v1",
		Data:     []byte(`{"name":"Concerts"}`),
		Metadata: []byte(`{"actor":"operator"}`),
		Created:  time.Date(2026, 11, 27, 12, 0, 0, 123456700, time.UTC),
	}
}

// A leaf must never change: heads that were signed before would not fit any more.
func TestLeafNeverChanges(t *testing.T) {
	t.Parallel()
	e := recorded()
	hash := seal.LeafHash(&e)
	if got := hex.EncodeToString(hash[:]); got != "ccefb59616d65cadc68dc9b1558b28a4b1d3a92b98c86a64bff06e8d6f3ee1a4" {
		t.Errorf("the leaf is %s now", got)
	}
}

// A copy has other positions and another time of recording, and the same leaf.
func TestLeafOfCopy(t *testing.T) {
	t.Parallel()
	e := recorded()
	copied := e
	copied.Metadata = eventstore.CarriedMetadata(&e)
	copied.Position = eventstore.Position{Commit: 1, Prepare: 1}
	if seal.LeafHash(&copied) != seal.LeafHash(&e) {
		t.Error("the copy has another leaf")
	}
}

func TestStoredLeaves(t *testing.T) {
	t.Parallel()
	e := recorded()
	leaves := []seal.Leaf{seal.LeafOf(&e), {Revision: 1<<63 - 1}}
	var stored []byte
	for _, leaf := range leaves {
		stored = seal.AppendLeaf(stored, leaf)
	}
	if got, err := seal.ReadLeaves(stored); err != nil || !slices.Equal(got, leaves) {
		t.Errorf("%v, %v", got, err)
	}
	for cut := 1; cut < len(stored); cut++ {
		if got, err := seal.ReadLeaves(stored[:cut]); err == nil && len(got) == len(leaves) {
			t.Errorf("%d of %d bytes are read as all leaves", cut, len(stored))
		}
	}
}

// A tree that is resumed by its nodes grows as the one that never stopped.
func TestTreeResumes(t *testing.T) {
	t.Parallel()
	whole := seal.NewTree()
	for size := range uint64(100) {
		resumed, err := seal.ResumeTree(size, whole.Nodes())
		if err != nil {
			t.Fatal(err)
		}
		leaf := seal.Hash{byte(size)}
		whole.Append(leaf)
		resumed.Append(leaf)
		if resumed.Root() != whole.Root() || resumed.Size() != size+1 {
			t.Fatalf("after %d leaves the roots differ", size)
		}
	}
	if _, err := seal.ResumeTree(3, whole.Nodes()); err == nil {
		t.Error("nodes of another size were taken")
	}
}
