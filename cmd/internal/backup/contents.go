package backup

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/uuid"

	"carillon/cmd/internal/custody"
	"carillon/command/sealing"
	"carillon/eventstore"
	"carillon/eventstore/copying"
	"carillon/eventstore/esdb"
	"carillon/eventstore/node"
)

// contents is the content of an event store: its streams, and each live owner of a data key with its newest sealed
// data, destinations and client certificates.
type contents struct {
	streams map[string]*stream
	owners  custody.Owners
	events  uint64
	// signed: hashes cover the metadata as well, which those of earlier versions left out.
	signed    bool
	described map[string][sha256.Size]byte // by stream with metadata, the hash of the newest
	log       [sha256.Size]byte            // chains stream and revision of each event
	buffer    []byte
}

type stream struct {
	events uint64
	last   eventstore.Revision
	sum    [sha256.Size]byte
}

// read reads the whole log. The store's own streams are left out.
func read(ctx context.Context, store *esdb.Store, signed bool, progress node.Progress) (contents, error) {
	c := contents{
		streams:   map[string]*stream{},
		owners:    custody.NewOwners(),
		signed:    signed,
		described: map[string][sha256.Size]byte{},
	}
	head, err := store.Head(ctx)
	if err != nil {
		return c, err
	}
	for entry, err := range store.All(ctx, eventstore.Start) {
		if err != nil {
			return c, fmt.Errorf("read the event store: %w", err)
		}
		if strings.HasPrefix(entry.Stream, "$") {
			c.describe(&entry)
			continue
		}
		c.add(&entry)
		if err := c.owners.Apply(&entry.Recorded); err != nil {
			return c, err
		}
		if c.events++; c.events%1000 == 0 && progress != nil {
			progress(entry.Position.Commit, head.Commit)
		}
	}
	return c, nil
}

// describe takes in the metadata of a stream, which can hide its events.
func (c *contents) describe(e *esdb.Entry) {
	if strings.HasPrefix(e.Stream, "$$") && !strings.HasPrefix(e.Stream, "$$$") {
		c.described[e.Stream] = sha256.Sum256(e.Data)
	}
}

// add chains the hash of an event to that of its stream, and its place to that of the log.
func (c *contents) add(e *esdb.Entry) {
	s := c.streams[e.Stream]
	if s == nil {
		s = &stream{}
		c.streams[e.Stream] = s
	}
	revision := binary.AppendUvarint(nil, uint64(e.Revision)) //nolint:gosec // not negative
	parts := [][]byte{[]byte(e.Type), e.ID[:], e.Data, revision}
	if c.signed {
		parts = append(parts, eventstore.CarriedMetadata(&e.Recorded))
	}
	s.sum, s.last = c.chain(s.sum, parts...), e.Revision
	s.events++
	if e.Type != eventstore.Filler { // a copy adds those at its end
		c.log = c.chain(c.log, []byte(e.Stream), revision)
	}
}

func (c *contents) chain(sum [sha256.Size]byte, parts ...[]byte) [sha256.Size]byte {
	c.buffer = append(c.buffer[:0], sum[:]...)
	for _, part := range parts {
		c.buffer = append(binary.AppendUvarint(c.buffer, uint64(len(part))), part...)
	}
	return sha256.Sum256(c.buffer)
}

// order is the hash of the order of all events.
func (c *contents) order() string { return hex.EncodeToString(c.log[:]) }

// list returns the records of the streams, by name, those with metadata first.
func (c *contents) list() []copying.Stream {
	list := make([]copying.Stream, 0, len(c.streams)+len(c.described))
	if c.signed {
		for _, name := range slices.Sorted(maps.Keys(c.described)) {
			sum := c.described[name]
			list = append(list, copying.Stream{Name: name, Events: 1, SHA256: hex.EncodeToString(sum[:])})
		}
	}
	for _, name := range slices.Sorted(maps.Keys(c.streams)) {
		s := c.streams[name]
		list = append(list, copying.Stream{
			Name:   name,
			Events: s.events,
			Last:   s.last,
			SHA256: hex.EncodeToString(s.sum[:]),
		})
	}
	return list
}

// unopened are those who live and of whom what was sealed last opens with none of some keys.
func (c *contents) unopened(ring *sealing.Ring, keys map[uuid.UUID][]byte) custody.Lost {
	var ids []uuid.UUID
	for id, owner := range c.owners.Live {
		if _, err := ring.OpenWith(id, owner.Field(), keys[id], owner.Newest); err != nil {
			ids = append(ids, id)
		}
	}
	return c.owners.Lost(ids)
}
