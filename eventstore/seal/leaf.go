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

// Encode returns the bytes that a leaf is the hash of: stream, revision, id, type, data and metadata of an event, each
// text after its length. The metadata has the time of recording (see eventstore.CarriedMetadata). The position is not
// part of it, as each store gives its own.
func Encode(e *eventstore.Recorded) []byte { return encode(e, eventstore.CarriedMetadata(e)) }

func encode(e *eventstore.Recorded, metadata []byte) []byte {
	out := make([]byte, 0, len(e.Stream)+len(e.Type)+len(e.Data)+len(metadata)+4*4+8+len(e.ID))
	out = appendText(out, []byte(e.Stream))
	out = binary.BigEndian.AppendUint64(out, uint64(e.Revision)) //nolint:gosec // not negative
	out = append(out, e.ID[:]...)
	out = appendText(out, []byte(e.Type))
	out = appendText(out, e.Data)
	return appendText(out, metadata)
}

func appendText(out, text []byte) []byte {
	out = binary.BigEndian.AppendUint32(out, uint32(len(text))) //nolint:gosec // at most 1 MiB
	return append(out, text...)
}

// LeafHash returns the leaf of an event.
func LeafHash(e *eventstore.Recorded) Hash { return leafOf(Encode(e)) }

func leafOf(encoded []byte) Hash { return Hash(rfc6962.DefaultHasher.HashLeaf(encoded)) }

// Tag is the beginning of the hash of a stream's name.
type Tag [8]byte

// TagOf returns the tag of a stream.
func TagOf(stream string) Tag {
	sum := sha256.Sum256([]byte(stream))
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
