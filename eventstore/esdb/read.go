package esdb

import (
	"context"
	"errors"
	"io"
	"iter"
	"math"
	"strconv"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

// Read implements eventstore.Store. Where the leader changes meanwhile, it goes on at the new one after the last event.
func (s *Store) Read(ctx context.Context, stream string, from eventstore.Revision) iter.Seq2[eventstore.Recorded, error] {
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

// entries yields what a read gives. request is asked again where the read has to go on elsewhere.
func (s *Store) entries(ctx context.Context, request func() *streams.ReadReq_Options) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		wanted := true
		_, err := led(ctx, s, 0, func(ctx context.Context, l *link, w *waits) (none struct{}, err error) {
			ctx, cancel := context.WithCancel(ctx) // ends the call where the caller has seen enough
			defer cancel()
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
					return none, nil
				}
				event := message.GetEvent().GetEvent()
				if event == nil { // no such stream, or what newer servers tell besides
					continue
				}
				w.stop()
				if wanted = yield(entryOf(event), nil); !wanted {
					return none, nil
				}
				w.again()
			}
		})
		if err != nil && wanted {
			yield(Entry{}, err)
		}
	}
}

func ofStream(name string, from *streams.ReadReq_Options_StreamOptions, count uint64) *streams.ReadReq_Options {
	from.StreamIdentifier = &shared.StreamIdentifier{StreamName: []byte(name)}
	return asked(&streams.ReadReq_Options{
		StreamOption: &streams.ReadReq_Options_Stream{Stream: from},
		CountOption:  &streams.ReadReq_Options_Count{Count: count},
	})
}

// ofAll asks for the log from a position on, which is where it begins for Start.
func ofAll(from eventstore.Position) *streams.ReadReq_Options_All {
	options := &streams.ReadReq_Options_AllOptions{
		AllOption: &streams.ReadReq_Options_AllOptions_Start{Start: &shared.Empty{}},
	}
	if from != eventstore.Start {
		options.AllOption = &streams.ReadReq_Options_AllOptions_Position{
			Position: &streams.ReadReq_Options_Position{CommitPosition: from.Commit, PreparePosition: from.Prepare},
		}
	}
	return &streams.ReadReq_Options_All{All: options}
}

// asked adds what every request has to say.
func asked(options *streams.ReadReq_Options) *streams.ReadReq_Options {
	options.UuidOption = &streams.ReadReq_Options_UUIDOption{Content: &streams.ReadReq_Options_UUIDOption_Structured{Structured: &shared.Empty{}}}
	if options.FilterOption == nil {
		options.FilterOption = &streams.ReadReq_Options_NoFilter{NoFilter: &shared.Empty{}}
	}
	return options
}

// ticks is how fine the protocol tells times: in units of 100 ns.
const ticks = 100 * time.Nanosecond

func recorded(e *streams.ReadResp_ReadEvent_RecordedEvent) eventstore.Recorded {
	r := eventstore.Recorded{
		ID:       idOf(e.GetId()),
		Stream:   string(e.GetStreamIdentifier().GetStreamName()),
		Revision: eventstore.Revision(e.GetStreamRevision()), //nolint:gosec // revisions fit an int64 by protocol
		Position: eventstore.Position{Commit: e.GetCommitPosition(), Prepare: e.GetPreparePosition()},
		Type:     e.GetMetadata()["type"],
		Data:     e.GetData(),
		Metadata: e.GetCustomMetadata(),
	}
	return r
}

// recordedAt is when this store recorded an event, by what that says; the epoch where it says nothing that can be read.
func recordedAt(said string) time.Time {
	since, err := strconv.ParseInt(said, 10, 64)
	if err != nil {
		since = 0
	}
	return time.Unix(since/int64(time.Second/ticks), since%int64(time.Second/ticks)*int64(ticks)).UTC()
}

// Head implements eventstore.Store.
func (s *Store) Head(ctx context.Context) (eventstore.Position, error) {
	for entry, err := range s.Backwards(ctx, eventstore.Start) {
		return entry.Position, err
	}
	return eventstore.Start, nil
}
