package embedded

import (
	"context"
	"errors"
	"fmt"
	"unicode/utf8"

	"carillon/eventstore"
	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/panics"
)

// Append implements eventstore.Store. It waits as long as ctx allows; an append whose caller has gone may be recorded.
func (s *Store) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	if err := ctx.Err(); err != nil {
		return eventstore.Appended{}, translate(err)
	}
	proposed, err := propose(stream, events)
	if err != nil {
		return eventstore.Appended{}, err
	}
	defer panics.Fatal()
	record := s.data.Append
	if eventstore.IsUnsynced(ctx) {
		record = s.data.AppendUnsynced
	}
	result, err := record(ctx, stream, expectation(expected), proposed)
	if err != nil {
		if _, wrong := err.(*store.WrongRevisionError); wrong { //nolint:errorlint // never wrapped, and frequent
			return eventstore.Appended{}, &eventstore.WrongRevisionError{Stream: stream, Expected: expected}
		}
		return eventstore.Appended{}, translate(err)
	}
	return eventstore.Appended{Revision: eventstore.Revision(result.Revision), Position: position(result.Position)}, nil
}

// Tombstone ends a stream permanently: its events can't be read any more, and the next scavenge removes them. A stream
// that has ended stays so.
func (s *Store) Tombstone(ctx context.Context, stream string) error {
	if err := ctx.Err(); err != nil {
		return translate(err)
	}
	defer panics.Fatal()
	_, err := s.data.Tombstone(ctx, stream, store.Any())
	if err != nil && !errors.Is(err, store.ErrStreamDeleted) {
		return fmt.Errorf("tombstone %s: %w", stream, translate(err))
	}
	return nil
}

func expectation(expected eventstore.Revision) store.Expected {
	if expected < 0 {
		return store.NoStream()
	}
	return store.Revision(uint64(expected))
}

// propose encodes events, and refuses what no reader could be given.
func propose(stream string, events []eventstore.Proposed) ([]store.Proposed, error) {
	if !named(stream) {
		return nil, fmt.Errorf("%w: no stream can be called %q", store.ErrInvalid, stream)
	}
	data, all := 0, 0
	for i := range events {
		e := &events[i]
		if !named(e.Type) {
			return nil, fmt.Errorf("%w: no event type can be called %q", store.ErrInvalid, e.Type)
		}
		data += len(e.Data)
		all += len(e.Data) + len(e.Metadata) + len(e.Type)
	}
	if data > store.MaxAppendBytes || all > store.MaxRequestBytes {
		return nil, fmt.Errorf("%w: %d bytes of data, %d in all", eventstore.ErrTooLarge, data, all)
	}
	proposed := make([]store.Proposed, len(events))
	for i := range events {
		e := &events[i]
		proposed[i] = store.Propose(store.EventContent{
			ID:       store.EventID(e.ID),
			Stream:   stream,
			Type:     e.Type,
			JSON:     true,
			Metadata: e.Metadata,
			Data:     e.Data,
		})
	}
	return proposed, nil
}

// named reports whether a name can be given to other programs.
func named(name string) bool {
	return name != "" && name != "$all" && len(name) <= store.MaxNameBytes && utf8.ValidString(name)
}
