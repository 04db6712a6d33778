package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"

	"carillon/eventstore"
)

// Entry is an event as it stands in the log, with what only those need who handle logs as a whole.
type Entry struct {
	eventstore.Recorded

	JSON bool // its data is declared as JSON, else as bytes
}

// logPage is how many entries are asked for at once.
const logPage = 4096

// All yields the log after a position to its present end: every event of every stream, the system's own and those that
// metadata hides included. The sequence ends after the first error.
func (s *Store) All(ctx context.Context, after eventstore.Position) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			var from esdb.AllPosition = esdb.Start{}
			if after != eventstore.Start {
				from = esdb.Position{Commit: after.Commit, Prepare: after.Prepare}
			}
			count, fresh := 0, 0
			for entry, err := range s.page(ctx, esdb.ReadAllOptions{From: from}, logPage) {
				if err != nil {
					yield(entry, err)
					return
				}
				count++
				if !after.Before(entry.Position) {
					continue // reading forwards includes the position
				}
				fresh++
				after = entry.Position
				if !yield(entry, nil) {
					return
				}
			}
			if count < logPage && fresh == 0 {
				return
			}
		}
	}
}

// Backwards yields the log from its end to its beginning, as All does.
func (s *Store) Backwards(ctx context.Context) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		var from esdb.AllPosition = esdb.End{}
		for size := uint64(16); ; size = logPage { // most callers want few
			more := false
			for entry, err := range s.page(ctx, esdb.ReadAllOptions{From: from, Direction: esdb.Backwards}, size) {
				if !yield(entry, err) || err != nil {
					return
				}
				more, from = true, esdb.Position{Commit: entry.Position.Commit, Prepare: entry.Position.Prepare}
			}
			if !more {
				return
			}
		}
	}
}

func (s *Store) page(ctx context.Context, options esdb.ReadAllOptions, count uint64) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		ctx, end, err := s.begin(ctx)
		if err != nil {
			yield(Entry{}, err)
			return
		}
		defer end()
		events, err := start(ctx, s, func() (*esdb.ReadStream, error) { return s.client.ReadAll(ctx, options, count) })
		if err != nil {
			yield(Entry{}, translate(err))
			return
		}
		defer events.Close()
		for {
			event, err := events.Recv()
			switch {
			case errors.Is(err, io.EOF):
				return
			case err != nil:
				yield(Entry{}, translate(err))
				return
			}
			if !yield(entry(event), nil) {
				return
			}
		}
	}
}

func entry(e *esdb.ResolvedEvent) Entry {
	return Entry{Recorded: recorded(e), JSON: e.Event.ContentType == "application/json"}
}

// Last is the last readable event of a stream; ok is false where there is none.
func (s *Store) Last(ctx context.Context, stream string) (last Entry, ok bool, err error) {
	found, err := call(ctx, s, func(ctx context.Context) (*esdb.ResolvedEvent, error) {
		events, err := s.client.ReadStream(ctx, stream, esdb.ReadStreamOptions{From: esdb.End{}, Direction: esdb.Backwards}, 1)
		if err != nil {
			return nil, err
		}
		defer events.Close()
		event, err := events.Recv()
		var clientErr *esdb.Error
		if errors.Is(err, io.EOF) || errors.As(err, &clientErr) && clientErr.IsErrorCode(esdb.ErrorCodeResourceNotFound) {
			return nil, nil //nolint:nilnil // nothing there is an answer
		}
		return event, err
	})
	if err != nil || found == nil {
		return Entry{}, false, translate(err)
	}
	return entry(found), true, nil
}

// AppendEntries is Append for entries of another log: id, type, data, metadata and what the data is declared as.
func (s *Store) AppendEntries(ctx context.Context, stream string, expected eventstore.Revision, entries []Entry) (eventstore.Appended, error) {
	data := make([]esdb.EventData, len(entries))
	for i, e := range entries {
		data[i] = esdb.EventData{EventID: e.ID, EventType: e.Type, Data: e.Data, Metadata: e.Metadata}
		if e.JSON {
			data[i].ContentType = esdb.ContentTypeJson
		}
	}
	return s.append(ctx, stream, expected, data)
}

// Tombstone ends a stream for good. A stream that has ended stays so.
func (s *Store) Tombstone(ctx context.Context, stream string) error {
	_, err := call(ctx, s, func(ctx context.Context) (*esdb.DeleteResult, error) {
		return s.client.TombstoneStream(ctx, stream, esdb.TombstoneStreamOptions{ExpectedRevision: esdb.Any{}})
	})
	if err = translate(err); err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("tombstone %s: %w", stream, err)
	}
	return nil
}
