package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"math"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

// Entry is an event of the log, with what only those need who handle logs as a whole.
type Entry struct {
	eventstore.Recorded

	JSON bool      // its data is declared as JSON, else as bytes
	here time.Time // when this store recorded it
}

func entryOf(e *streams.ReadResp_ReadEvent_RecordedEvent) Entry {
	entry := Entry{
		Recorded: eventstore.Recorded{
			ID:       idOf(e.GetId()),
			Stream:   string(e.GetStreamIdentifier().GetStreamName()),
			Revision: revisionOf(e.GetStreamRevision()),
			Position: positionOf(e),
			Type:     e.GetMetadata()["type"],
			Data:     e.GetData(),
			Metadata: e.GetCustomMetadata(),
		},
		JSON: e.GetMetadata()["content-type"] == contentJSON,
		here: createdAt(e.GetMetadata()["created"]),
	}
	entry.Created = eventstore.FirstCreated(entry.Metadata, entry.here)
	return entry
}

// Read implements eventstore.Store. If the leader changes meanwhile, it continues at the new one after the last event.
func (s *Store) Read(
	ctx context.Context, stream string, from eventstore.Revision,
) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		next := uint64(max(from, 0))
		request := func() *streams.ReadReq_Options {
			return ofStream(stream, &streams.ReadReq_Options_StreamOptions{
				RevisionOption: &streams.ReadReq_Options_StreamOptions_Revision{Revision: next},
			}, math.MaxUint64)
		}
		for entry, err := range s.entries(ctx, request) {
			if err == nil {
				next = uint64(entry.Revision) + 1 //nolint:gosec // not negative
			}
			if !yield(entry.Recorded, err) || err != nil {
				return
			}
		}
	}
}

// Head implements eventstore.Store.
func (s *Store) Head(ctx context.Context) (eventstore.Position, error) {
	last, _, err := s.first(ctx, ofAll(toEnd, streams.ReadReq_Options_Backwards, 1))
	return last.Position, err
}

// Last returns the last readable event of a stream; ok is false if there is none.
func (s *Store) Last(ctx context.Context, stream string) (last Entry, ok bool, err error) {
	return s.first(ctx, fromEnd(stream))
}

// Identity distinguishes this store from any other, a copy of it included: its first event, its position, and when this
// store recorded it. It is "" for an empty store.
func (s *Store) Identity(ctx context.Context) (string, error) {
	options := ofAll(fromPosition(eventstore.Start), streams.ReadReq_Options_Forwards, 1)
	options.FilterOption = serverFilter(eventstore.Filter{})
	first, ok, err := s.first(ctx, options)
	switch {
	case err != nil:
		return "", fmt.Errorf("first event: %w", err)
	case !ok:
		return "", nil
	}
	return eventstore.IdentityOf(&first.Recorded, first.here), nil
}

// All yields the log after a position to its present end: every event of every stream, the system's own and those that
// metadata hides included. The sequence ends after the first error.
func (s *Store) All(ctx context.Context, after eventstore.Position) iter.Seq2[Entry, error] {
	return s.walk(ctx, after, streams.ReadReq_Options_Forwards)
}

// Events yields the whole log, as All does.
func (s *Store) Events(ctx context.Context) iter.Seq2[eventstore.Recorded, error] {
	return func(yield func(eventstore.Recorded, error) bool) {
		for entry, err := range s.All(ctx, eventstore.Start) {
			if !yield(entry.Recorded, err) {
				return
			}
		}
	}
}

// Backwards yields the log from before a position to its beginning, as All does; from its end for Start.
func (s *Store) Backwards(ctx context.Context, before eventstore.Position) iter.Seq2[Entry, error] {
	return s.walk(ctx, before, streams.ReadReq_Options_Backwards)
}

func (s *Store) walk(
	ctx context.Context, at eventstore.Position, direction streams.ReadReq_Options_ReadDirection,
) iter.Seq2[Entry, error] {
	forwards := direction == streams.ReadReq_Options_Forwards
	return func(yield func(Entry, error) bool) {
		next := at
		request := func() *streams.ReadReq_Options {
			if next == eventstore.Start && !forwards {
				return ofAll(toEnd, direction, math.MaxInt64)
			}
			return ofAll(fromPosition(next), direction, math.MaxInt64)
		}
		for entry, err := range s.entries(ctx, request) {
			if err == nil {
				if forwards && !next.Before(entry.Position) {
					continue // reading forwards includes the position
				}
				next = entry.Position
			}
			if !yield(entry, err) || err != nil {
				return
			}
		}
	}
}

// first returns the first event of a read; ok is false if there is none.
func (s *Store) first(ctx context.Context, options *streams.ReadReq_Options) (first Entry, ok bool, err error) {
	for entry, err := range s.entries(ctx, func() *streams.ReadReq_Options { return options }) {
		return entry, err == nil, err
	}
	return first, false, nil
}

// entries yields the events of a read. request is called again if the read has to continue elsewhere.
func (s *Store) entries(ctx context.Context, request func() *streams.ReadReq_Options) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		wanted := true
		err := s.read(ctx, request, func(message *streams.ReadResp) bool {
			if event := message.GetEvent().GetEvent(); event != nil { // nor "no such stream", nor what newer servers add
				wanted = yield(entryOf(event), nil)
			}
			return wanted
		})
		if err != nil && wanted {
			yield(Entry{}, err)
		}
	}
}

// read calls visit for the events of a read, until visit returns false.
func (s *Store) read(
	ctx context.Context, request func() *streams.ReadReq_Options, visit func(*streams.ReadResp) bool,
) error {
	_, err := led(ctx, s, func(ctx context.Context, l *link, w *wait) (none struct{}, err error) {
		call, err := l.streams.Read(leading(ctx), &streams.ReadReq{Options: request()})
		if err != nil {
			return none, refused(err, nil)
		}
		for {
			message, err := call.Recv()
			if err != nil && !errors.Is(err, io.EOF) {
				return none, ended(call, err)
			}
			l.heard.Add(1)
			if err != nil {
				return none, nil //nolint:nilerr // the end of what was asked for
			}
			w.pause()
			if !visit(message) {
				return none, nil
			}
			w.restart()
		}
	})
	return err
}

func ofStream(name string, from *streams.ReadReq_Options_StreamOptions, count uint64) *streams.ReadReq_Options {
	from.StreamIdentifier = named(name)
	return asked(&streams.ReadReq_Options{
		StreamOption: &streams.ReadReq_Options_Stream{Stream: from},
		CountOption:  &streams.ReadReq_Options_Count{Count: count},
	})
}

// fromEnd asks for a stream's last event.
func fromEnd(stream string) *streams.ReadReq_Options {
	options := ofStream(stream, &streams.ReadReq_Options_StreamOptions{
		RevisionOption: &streams.ReadReq_Options_StreamOptions_End{End: &shared.Empty{}},
	}, 1)
	options.ReadDirection = streams.ReadReq_Options_Backwards
	return options
}

func ofAll(
	from *streams.ReadReq_Options_AllOptions, direction streams.ReadReq_Options_ReadDirection, count uint64,
) *streams.ReadReq_Options {
	return asked(&streams.ReadReq_Options{
		StreamOption:  &streams.ReadReq_Options_All{All: from},
		ReadDirection: direction,
		CountOption:   &streams.ReadReq_Options_Count{Count: count},
	})
}

// toEnd is the end of the log.
var toEnd = &streams.ReadReq_Options_AllOptions{
	AllOption: &streams.ReadReq_Options_AllOptions_End{End: &shared.Empty{}},
}

// fromPosition is a place in the log: its beginning for Start.
func fromPosition(at eventstore.Position) *streams.ReadReq_Options_AllOptions {
	if at == eventstore.Start {
		start := &streams.ReadReq_Options_AllOptions_Start{Start: &shared.Empty{}}
		return &streams.ReadReq_Options_AllOptions{AllOption: start}
	}
	return &streams.ReadReq_Options_AllOptions{AllOption: &streams.ReadReq_Options_AllOptions_Position{
		Position: &streams.ReadReq_Options_Position{CommitPosition: at.Commit, PreparePosition: at.Prepare},
	}}
}

// asked adds what every request needs.
func asked(options *streams.ReadReq_Options) *streams.ReadReq_Options {
	structured := &streams.ReadReq_Options_UUIDOption_Structured{Structured: &shared.Empty{}}
	options.UuidOption = &streams.ReadReq_Options_UUIDOption{Content: structured}
	options.FilterOption = &streams.ReadReq_Options_NoFilter{NoFilter: &shared.Empty{}}
	return options
}
