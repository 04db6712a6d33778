package esdb

import (
	"context"
	"iter"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

// Entry is an event as it stands in the log, with what only those need who handle logs as a whole.
type Entry struct {
	eventstore.Recorded

	JSON bool      // its data is declared as JSON, else as bytes
	here time.Time // when this store recorded it
}

func entryOf(e *streams.ReadResp_ReadEvent_RecordedEvent) Entry {
	entry := Entry{
		Recorded: recorded(e), here: recordedAt(e.GetMetadata()["created"]), JSON: e.GetMetadata()["content-type"] == contentJSON,
	}
	entry.Created = eventstore.FirstCreated(entry.Metadata, entry.here)
	return entry
}

// logPage is how many entries are asked for at once.
const logPage = 4096

// All yields the log after a position to its present end: every event of every stream, the system's own and those that
// metadata hides included. The sequence ends after the first error.
func (s *Store) All(ctx context.Context, after eventstore.Position) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		for {
			count, fresh := 0, 0
			request := func() *streams.ReadReq_Options {
				return asked(&streams.ReadReq_Options{
					StreamOption: ofAll(after), CountOption: &streams.ReadReq_Options_Count{Count: logPage},
				})
			}
			for entry, err := range s.entries(ctx, request) {
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

// Backwards yields the log from before a position to its beginning, as All does; from its end for Start.
func (s *Store) Backwards(ctx context.Context, before eventstore.Position) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		from := &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{
			AllOption: &streams.ReadReq_Options_AllOptions_End{End: &shared.Empty{}},
		}}
		if before != eventstore.Start {
			from = ofAll(before)
		}
		for size := uint64(1); ; size = min(16*size, logPage) { // most callers want few
			more := false
			request := func() *streams.ReadReq_Options {
				return asked(&streams.ReadReq_Options{
					ReadDirection: streams.ReadReq_Options_Backwards,
					StreamOption:  from, CountOption: &streams.ReadReq_Options_Count{Count: size},
				})
			}
			for entry, err := range s.entries(ctx, request) {
				if err == nil { // before the next step, which may be a request
					more, from = true, ofAll(entry.Position)
				}
				if !yield(entry, err) || err != nil {
					return
				}
			}
			if !more {
				return
			}
		}
	}
}

// Last is the last readable event of a stream; ok is false where there is none.
func (s *Store) Last(ctx context.Context, stream string) (last Entry, ok bool, err error) {
	request := func() *streams.ReadReq_Options {
		options := ofStream(stream, &streams.ReadReq_Options_StreamOptions{
			RevisionOption: &streams.ReadReq_Options_StreamOptions_End{End: &shared.Empty{}},
		}, 1)
		options.ReadDirection = streams.ReadReq_Options_Backwards
		return options
	}
	for entry, err := range s.entries(ctx, request) {
		return entry, err == nil, err
	}
	return Entry{}, false, nil
}
