package treeheads

import (
	"cmp"
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/eventstore"
	"carillon/eventstore/seal"
)

// stored is a stream as the store has it, beside the leaves that are kept of it.
type stored struct {
	name   string
	events map[eventstore.Revision]eventstore.Recorded
	sealed []sealedPlace
	ended  bool // by a tombstone
}

// sealedPlace is that of a leaf in its stream, and in the order of all events.
type sealedPlace struct {
	revision eventstore.Revision
	index    uint64
}

func newStored(name string) *stored {
	return &stored{name: name, events: map[eventstore.Revision]eventstore.Recorded{}}
}

// id returns the id in the stream's name.
func (s *stored) id() uuid.UUID { return (&eventstore.Recorded{Stream: s.name}).StreamID() }

// read reads the events that the store shows.
func (s *stored) read(ctx context.Context, store eventstore.Store) error {
	for e, err := range store.Read(ctx, s.name, 0) {
		if s.ended = errors.Is(err, eventstore.ErrStreamDeleted); s.ended {
			return nil
		}
		if err != nil {
			return err
		}
		s.events[e.Revision] = e
	}
	return nil
}

// gone counts the sealed events that were not found.
func (s *stored) gone() (n int) {
	for _, place := range s.sealed {
		if _, found := s.events[place.revision]; !found {
			n++
		}
	}
	return n
}

// uncover finds events that the stream's metadata hides in the order of all, as long as they are not scavenged. A
// stream with a tombstone stays ended.
func (s *stored) uncover(ctx context.Context, store eventstore.Store) error {
	if s.ended || s.gone() == 0 {
		return nil
	}
	head, err := store.Head(ctx)
	if err != nil {
		return err
	}
	only := eventstore.Filter{Prefixes: []string{s.name}}
	for e, err := range eventstore.Between(ctx, store, eventstore.Start, head, only) {
		if err != nil {
			return err
		}
		if e.Stream == s.name {
			s.events[e.Revision] = *e
		}
	}
	return nil
}

// part is the part of a stream that a reader gets.
type part struct {
	seal.ExportStream

	events   []exported
	unsealed int
}

// part returns the sealed events that belong to a reader's organization, or to none, and counts those that are not
// sealed yet. uuid.Nil reads all. Streams without an event of its own do not exist for a reader.
func (s *stored) part(reader uuid.UUID) (p part, err error) {
	beginning, known := s.events[0]
	if !known && reader != uuid.Nil {
		return p, nil // whose it was is not known
	}
	owner, err := eventstore.ParseMetadata(beginning.Metadata)
	if err != nil {
		return p, err
	}
	reads := func(e *eventstore.Recorded) (bool, error) {
		meta, err := eventstore.ParseMetadata(e.Metadata)
		return reader == uuid.Nil || cmp.Or(meta.Organization, owner.Organization) == reader, err
	}
	p.Stream, p.Last = s.name, eventstore.NoStream
	if n := len(s.sealed); n > 0 {
		p.First, p.Last = s.sealed[0].revision, s.sealed[n-1].revision
	}
	for _, place := range s.sealed {
		e := s.events[place.revision]
		mine, err := reads(&e)
		if err != nil {
			return p, err
		}
		if mine {
			p.events = append(p.events, exported{e, place.index})
		} else {
			p.Withheld = append(p.Withheld, place.revision)
		}
	}
	for revision, e := range s.events {
		if mine, err := reads(&e); err == nil && mine && revision > p.Last {
			p.unsealed++
		}
	}
	if gone := s.gone(); gone > 0 && len(p.events) > 0 {
		return p, &GoneError{Stream: s.name, Events: gone}
	}
	return p, nil
}
