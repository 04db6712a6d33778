package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore"
)

// Append implements eventstore.Store.
func (s *Store) Append(ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed) (eventstore.Appended, error) {
	list := make([]proposal, len(events))
	for i, e := range events {
		list[i] = proposal{Proposed: e, contentType: contentJSON}
	}
	return s.append(ctx, stream, expected, list)
}

// AppendEntries is Append for entries of another log: id, type, data, metadata and what the data is declared as.
func (s *Store) AppendEntries(ctx context.Context, stream string, expected eventstore.Revision, entries []Entry) (eventstore.Appended, error) {
	return s.append(ctx, stream, expected, proposals(entries))
}

func proposals(entries []Entry) []proposal {
	list := make([]proposal, len(entries))
	for i, e := range entries {
		list[i] = proposal{
			Proposed:    eventstore.Proposed{ID: e.ID, Type: e.Type, Data: e.Data, Metadata: e.Metadata},
			contentType: contentBytes,
		}
		if e.JSON {
			list[i].contentType = contentJSON
		}
	}
	return list
}

// What events declare their data as.
const (
	contentJSON  = "application/json"
	contentBytes = "application/octet-stream"
)

// proposal is an event as it is sent.
type proposal struct {
	eventstore.Proposed
	contentType string
}

func (s *Store) append(ctx context.Context, stream string, expected eventstore.Revision, events []proposal) (eventstore.Appended, error) {
	return led(ctx, s, callTimeout, func(ctx context.Context, l *link, _ *waits) (eventstore.Appended, error) {
		if l.batches != nil && !l.batches.refused.Load() {
			appended, err := l.batches.append(ctx, stream, expected, events)
			if codeOf(err) != codes.Unimplemented {
				return appended, err
			}
			l.batches.refused.Store(true) // from now on one by one
		}
		return l.appendAlone(ctx, stream, expected, events)
	})
}

// appendAlone appends by a call of its own.
func (l *link) appendAlone(ctx context.Context, stream string, expected eventstore.Revision, events []proposal) (eventstore.Appended, error) {
	call, err := l.streams.Append(leading(ctx))
	if err != nil {
		return eventstore.Appended{}, refused(err, nil)
	}
	err = call.Send(&streams.AppendReq{Content: &streams.AppendReq_Options_{Options: appendOptions(stream, expected)}})
	for i := 0; err == nil && i < len(events); i++ {
		err = call.Send(&streams.AppendReq{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: events[i].message()}})
	}
	if err != nil && !errors.Is(err, io.EOF) { // the end of the stream means that the answer says why
		return eventstore.Appended{}, ended(call, err)
	}
	response, err := call.CloseAndRecv()
	if err != nil {
		return eventstore.Appended{}, ended(call, err)
	}
	if response.GetWrongExpectedVersion() != nil {
		return eventstore.Appended{}, &eventstore.WrongRevisionError{Stream: stream, Expected: expected}
	}
	l.heard.Add(1)
	success := response.GetSuccess()
	return eventstore.Appended{
		Revision: eventstore.Revision(success.GetCurrentRevision()), //nolint:gosec // revisions fit an int64 by protocol
		Position: eventstore.Position{Commit: success.GetPosition().GetCommitPosition(), Prepare: success.GetPosition().GetPreparePosition()},
	}, nil
}

func appendOptions(stream string, expected eventstore.Revision) *streams.AppendReq_Options {
	options := &streams.AppendReq_Options{StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)}}
	if expected >= 0 {
		options.ExpectedStreamRevision = &streams.AppendReq_Options_Revision{Revision: uint64(expected)}
	} else {
		options.ExpectedStreamRevision = &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}}
	}
	return options
}

func (p *proposal) message() *streams.AppendReq_ProposedMessage {
	return &streams.AppendReq_ProposedMessage{
		Id: messageID(bitsOf(p.ID)), Metadata: p.system(), Data: p.Data, CustomMetadata: p.Metadata,
	}
}

// Tombstone ends a stream for good. A stream that has ended stays so.
func (s *Store) Tombstone(ctx context.Context, stream string) error {
	_, err := led(ctx, s, callTimeout, func(ctx context.Context, l *link, _ *waits) (*streams.TombstoneResp, error) {
		var trailer metadata.MD
		response, err := l.streams.Tombstone(leading(ctx), &streams.TombstoneReq{Options: &streams.TombstoneReq_Options{
			StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte(stream)},
			ExpectedStreamRevision: &streams.TombstoneReq_Options_Any{Any: &shared.Empty{}},
		}}, grpc.Trailer(&trailer))
		return response, refused(err, trailer)
	})
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("tombstone %s: %w", stream, err)
	}
	return nil
}
