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

// Stream is the content of one stream, in source and copy alike.
type Stream struct {
	Name   string              `json:"stream"`
	Events uint64              `json:"events"`
	Last   eventstore.Revision `json:"lastRevision"` // also if that event is gone; 2^63-1 if tombstoned
	SHA256 string              `json:"sha256"`       // over its events, in order, in hexadecimal
}

// tally counts the events of a stream and chains their hashes.
type tally struct {
	events uint64
	last   eventstore.Revision // NoStream if the log shows no event
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

func (t *tallies) of(stream string) *[2]tally {
	both := t.streams[stream]
	if both == nil {
		both = &[2]tally{{last: eventstore.NoStream}, {last: eventstore.NoStream}}
		t.streams[stream] = both
	}
	return both
}

// pass takes in that a side's log has an event, be it one that is compared or not.
func (t *tallies) pass(side side, e *esdb.Entry) {
	one := &t.of(e.Stream)[side]
	if one.last = max(one.last, e.Revision); e.Type == tombstoneType {
		one.last = ended
	}
}

// last are the last revisions of a stream that the logs of source and target show.
func (t *tallies) last(stream string) (source, target eventstore.Revision) {
	if both := t.streams[stream]; both != nil {
		return both[ofSource].last, both[ofTarget].last
	}
	return eventstore.NoStream, eventstore.NoStream
}

// end takes in the last revisions of a stream, whatever the logs show.
func (t *tallies) end(stream string, source, target eventstore.Revision) {
	both := t.of(stream)
	both[ofSource].last, both[ofTarget].last = source, target
}

// add takes in an event of one side, with the metadata that a copy has.
func (t *tallies) add(of side, e *esdb.Entry, metadata []byte) {
	both := t.of(e.Stream)
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
		switch {
		case want.events != got.events || want.sum != got.sum:
			return nil, "", &Difference{Stream: name, Revision: eventstore.NoStream, What: fmt.Sprintf(
				"%d events with SHA-256 %x became %d with %x", want.events, want.sum, got.events, got.sum)}
		case want.last != got.last:
			return nil, "", &Difference{Stream: name, Revision: eventstore.NoStream, What: fmt.Sprintf(
				"its last revision %d became %d", want.last, got.last)}
		case want.last < 0:
			continue // it has metadata and nothing else
		}
		one := Stream{
			Name:   name,
			Events: want.events,
			Last:   want.last,
			SHA256: hex.EncodeToString(want.sum[:]),
		}
		_, _ = fmt.Fprintf(whole, "%q %d %d %s\n", name, one.Events, one.Last, one.SHA256) // never fails
		streams = append(streams, one)
	}
	return streams, hex.EncodeToString(whole.Sum(nil)), nil
}
