package seal

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"strings"

	"github.com/transparency-dev/merkle/rfc6962"

	"carillon/eventstore"
)

// Hash is a hash of the tree: SHA-256.
type Hash [sha256.Size]byte

// Covers reports whether an event is a leaf of the tree: the store's own events are none, nor are fillers, which a copy
// has in the places of removed events.
func Covers(e *eventstore.Recorded) bool {
	return !strings.HasPrefix(e.Type, "$") && !strings.HasPrefix(e.Stream, "$") && e.Type != eventstore.Filler
}

// LeafHash returns the leaf of an event: the hash of its stream, revision, id, type, data and metadata, each text after
// its length. The metadata has the time of recording (see eventstore.CarriedMetadata). The position is not part of it,
// as each store has its own.
func LeafHash(e *eventstore.Recorded) Hash {
	var room [leafRoom]byte
	out := appendLeaf(room[:0], e)
	before := len(out)
	out = eventstore.AppendCarriedMetadata(append(out, 0, 0, 0, 0), e)
	binary.BigEndian.PutUint32(out[before:], uint32(len(out)-before-4)) //nolint:gosec // at most 1 MiB
	return sha256.Sum256(out)
}

// leafOfExported returns the leaf of an event whose metadata has the time of recording already.
func leafOfExported(e *eventstore.Recorded) Hash {
	return sha256.Sum256(appendText(appendLeaf(nil, e), e.Metadata))
}

// leafRoom is the size of events up to which their leaves take no memory.
const leafRoom = 2 << 10

// appendLeaf appends what a leaf is the hash of, up to the metadata.
func appendLeaf(out []byte, e *eventstore.Recorded) []byte {
	out = appendText(append(out, rfc6962.RFC6962LeafHashPrefix), e.Stream)
	out = binary.BigEndian.AppendUint64(out, uint64(e.Revision)) //nolint:gosec // not negative
	out = append(out, e.ID[:]...)
	return appendText(appendText(out, e.Type), e.Data)
}

func appendText[T string | []byte](out []byte, text T) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(text))) //nolint:gosec // at most 1 MiB
	return append(out, text...)
}

// Tag is the beginning of the hash of a stream's name.
type Tag [8]byte

// TagOf returns the tag of a stream.
func TagOf(stream string) Tag {
	var room [128]byte // for most names
	sum := sha256.Sum256(append(room[:0], stream...))
	return Tag(sum[:len(Tag{})])
}

// Leaf is the kept part of an event: its hash, and where the event is, or was.
type Leaf struct {
	Hash     Hash
	Tag      Tag // of its stream
	Revision eventstore.Revision
}

// LeafOf returns the leaf of an event.
func LeafOf(e *eventstore.Recorded) Leaf {
	return Leaf{Hash: LeafHash(e), Tag: TagOf(e.Stream), Revision: e.Revision}
}

// Is reports whether an event has the place of a leaf.
func (l Leaf) Is(other Leaf) bool { return l.Tag == other.Tag && l.Revision == other.Revision }

// AppendLeaf adds the stored form of a leaf.
func AppendLeaf(out []byte, l Leaf) []byte {
	out = append(append(out, l.Hash[:]...), l.Tag[:]...)
	return binary.AppendUvarint(out, uint64(l.Revision)) //nolint:gosec // not negative
}

var errLeaves = errors.New("stored leaves can't be read")

// ReadLeaves reads what AppendLeaf has written.
func ReadLeaves(stored []byte) (leaves []Leaf, err error) {
	const fixed = len(Hash{}) + len(Tag{})
	for len(stored) > 0 {
		if len(stored) <= fixed {
			return nil, errLeaves
		}
		revision, size := binary.Uvarint(stored[fixed:])
		if size <= 0 || revision >= 1<<63 {
			return nil, errLeaves
		}
		leaves = append(leaves, Leaf{
			Hash:     Hash(stored[:len(Hash{})]),
			Tag:      Tag(stored[len(Hash{}):fixed]),
			Revision: eventstore.Revision(revision), //nolint:gosec // checked above
		})
		stored = stored[fixed+size:]
	}
	return leaves, nil
}
