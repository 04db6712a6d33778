package seal_test

import (
	"bytes"
	"encoding/hex"
	"testing"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/seal"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	const dated = `{"actor":"operator","$originalCreatedDate":"2026-01-01T00:00:00Z"}`
	for _, c := range []struct {
		name, metadata string
		data           int // bytes; 0 means those of recorded
		want           string
	}{
		{"usual", `{"actor":"operator"}`, 0, "ccefb59616d65cadc68dc9b1558b28a4b1d3a92b98c86a64bff06e8d6f3ee1a4"},
		{"no metadata", "", 0, "cef47545fbcbe0cb374dcd4da852b3b0a99db27d8f6fd4142b0c8b4218702b8c"},
		{"empty object", "{}", 0, "cef47545fbcbe0cb374dcd4da852b3b0a99db27d8f6fd4142b0c8b4218702b8c"},
		{"spaces", " { \n} ", 0, "950c8cc700c8aaeec54afe4526eceb81d0292e884bfc1ab8336518ab619ddedd"},
		{"dated", dated, 0, "0741fe16d8c8bb42de1516fc37f4d761b0c4c14474c67c109369b3b6f8f44afa"},
		{"malformed", `{"actor":`, 0, "faffc25e5b6add00654ca9661d8440a53c4c194b037b36e200a19195ed0d0fb5"},
		{"no object", `["operator"]`, 0, "3650c11e45888bb99c4fc4fd1ebf89e01330963cc3467b74d977bdb075ebe43c"},
		{"large", `{"actor":"operator"}`, 3000, "8eadbd687b0cd3665c529a27a9fe4d07f77567bd1148a504435c3f0e3d909dc7"},
		{"full", "{}", 1<<20 - 86, "d818fedf598fd45c2b47f768f12f962870f779df440c641dea3f68b65ce71050"},
		{"too full", "{}", 1<<20 - 85, "1b8a3dabee155c6de599237706b915d74931a6be67a11ffb64d9675c092a29fa"},
		{"full, no metadata", "", 1<<20 - 85, "b08a381b961e4987b3f99bbadcea78fbc31abea525f7eabd1f91ebb498b3752e"},
		{"too full, no metadata", "", 1<<20 - 84, "dc998e5ce2d100ab6bd2f916f541f9d6329be695e2718a4862d5d41e2aa06506"},
	} {
		e := recorded()
		e.Metadata = []byte(c.metadata)
		if c.data > 0 {
			e.Data = bytes.Repeat([]byte{'x'}, c.data)
		}
		hash := seal.LeafHash(&e)
		assert.Equal(t, hex.EncodeToString(hash[:]), c.want, "%s: the leaf … now", c.name)
	}
}

// A copy has other positions and another time of recording, and the same leaf.
func TestLeafOfCopy(t *testing.T) {
	t.Parallel()
	e := recorded()
	copied := e
	copied.Metadata = eventstore.CarriedMetadata(&e)
	copied.Position = eventstore.Position{Commit: 1, Prepare: 1}
	assert.Equal(t, seal.LeafHash(&copied), seal.LeafHash(&e), "the copy has another leaf")
}

func TestStoredLeaves(t *testing.T) {
	t.Parallel()
	e := recorded()
	leaves := []seal.Leaf{seal.LeafOf(&e), {Revision: 1<<63 - 1}}
	var stored []byte
	for _, leaf := range leaves {
		stored = seal.AppendLeaf(stored, leaf)
	}
	assert.Slices(t, must.Get(seal.ReadLeaves(stored))(t), leaves, "ReadLeaves")
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
		resumed := must.Get(seal.ResumeTree(size, whole.Nodes()))(t)
		leaf := seal.Hash{byte(size)}
		whole.Append(leaf)
		resumed.Append(leaf)
		must.True(t, resumed.Root() == whole.Root() && resumed.Size() == size+1, "after %d leaves the roots differ", size)
	}
	_, err := seal.ResumeTree(3, whole.Nodes())
	assert.True(t, err != nil, "nodes of another size were taken")
}
