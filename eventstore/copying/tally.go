package copying

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"

	"carillon/eventstore"
	"carillon/eventstore/esdb"
)

// Stream is what one stream holds, in source and copy alike.
type Stream struct {
	Name   string `json:"stream"`
	Events uint64 `json:"events"`
	SHA256 string `json:"sha256"` // over its events, in order, in hexadecimal
}

// tally counts the events of a stream and chains their hashes.
type tally struct {
	events uint64
	sum    [sha256.Size]byte
}

// side is whose tally it is.
type side int

const (
	ofSource side = iota
	ofTarget
)

// tallies has two for each stream, one of each side.
type tallies struct {
	streams map[string]*[2]tally
	buffer  []byte
}

func newTallies() *tallies { return &tallies{streams: map[string]*[2]tally{}} }

// add takes in an event of one side, with the metadata that a copy has.
func (t *tallies) add(of side, e *esdb.Entry, metadata []byte) {
	both := t.streams[e.Stream]
	if both == nil {
		both = &[2]tally{}
		t.streams[e.Stream] = both
	}
	parts := [][]byte{[]byte(e.Type)} // all that is the same of a tombstone: each server makes its own
	if e.Type != tombstoneType {
		declared := byte(0)
		if e.JSON {
			declared = 1
		}
		revision := binary.AppendUvarint(nil, uint64(e.Revision)) //nolint:gosec // not negative
		parts = append(parts, revision, e.ID[:], e.Data, metadata, []byte{declared})
	}
	one := &both[of]
	t.buffer = append(t.buffer[:0], one.sum[:]...)
	for _, part := range parts {
		t.buffer = append(binary.AppendUvarint(t.buffer, uint64(len(part))), part...)
	}
	one.sum = sha256.Sum256(t.buffer)
	one.events++
}

// compare holds the sides of each stream against each other. It returns the streams by name, and a hash over all of
// them; or a *Difference that names the first stream that differs.
func (t *tallies) compare() (streams []Stream, digest string, err error) {
	whole := sha256.New()
	for _, name := range slices.Sorted(maps.Keys(t.streams)) {
		want, got := t.streams[name][ofSource], t.streams[name][ofTarget]
		if want != got {
			return nil, "", &Difference{Stream: name, Revision: eventstore.NoStream, What: fmt.Sprintf(
				"%d events with SHA-256 %x became %d with %x", want.events, want.sum, got.events, got.sum)}
		}
		one := Stream{Name: name, Events: want.events, SHA256: hex.EncodeToString(want.sum[:])}
		_, _ = fmt.Fprintf(whole, "%q %d %s\n", name, one.Events, one.SHA256) // never fails
		streams = append(streams, one)
	}
	return streams, hex.EncodeToString(whole.Sum(nil)), nil
}
