package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore"
)

// proposal is an append.
type proposal struct {
	stream   string
	expected eventstore.Revision
	events   []*streams.BatchAppendReq_ProposedMessage
	bytes    int // of data and metadata
	lingers  bool
}

// Append implements eventstore.Store.
func (s *Store) Append(
	ctx context.Context, stream string, expected eventstore.Revision, events []eventstore.Proposed,
) (eventstore.Appended, error) {
	entries := make([]Entry, len(events))
	for i, e := range events {
		entries[i] = Entry{JSON: true, Recorded: eventstore.Recorded{
			ID:       e.ID,
			Type:     e.Type,
			Data:     e.Data,
			Metadata: e.Metadata,
		}}
	}
	return s.AppendEntries(ctx, stream, expected, entries)
}

// Declarations of an event's data.
const (
	contentJSON  = "application/json"
	contentBytes = "application/octet-stream"
)

// proposed returns an append. A name that is no text would end the call of all appends.
func proposed(stream string, expected eventstore.Revision, entries []Entry) (*proposal, error) {
	p := &proposal{stream: stream, expected: expected}
	for i := range entries {
		e := &entries[i]
		if !utf8.ValidString(e.Type) || !utf8.ValidString(stream) {
			return nil, &refusal{code: codes.InvalidArgument, message: "the type or the stream's name is not text in UTF-8"}
		}
		declared := contentBytes
		if e.JSON {
			declared = contentJSON
		}
		p.bytes += len(e.Data) + len(e.Metadata)
		p.events = append(p.events, &streams.BatchAppendReq_ProposedMessage{
			Id:             messageID(e.ID),
			Metadata:       map[string]string{"type": e.Type, "content-type": declared},
			CustomMetadata: e.Metadata,
			Data:           e.Data,
		})
	}
	return p, nil
}

// AppendEntries is Append for entries of another log: id, type, data, metadata and declared content type.
func (s *Store) AppendEntries(
	ctx context.Context, stream string, expected eventstore.Revision, entries []Entry,
) (eventstore.Appended, error) {
	p, err := proposed(stream, expected, entries)
	if err != nil {
		return eventstore.Appended{}, err
	}
	p.lingers = eventstore.Lingers(ctx)
	return led(ctx, s, func(ctx context.Context, l *link, _ *wait) (appended eventstore.Appended, err error) {
		within := callTimeout
		if deadline, ok := ctx.Deadline(); ok {
			within = min(within, time.Until(deadline))
		}
		if !l.noBatches.Load() {
			appended, err = l.appendTogether(ctx, p, within)
			if codeOf(err) != codes.Unimplemented {
				return appended, err
			}
			l.noBatches.Store(true)
		}
		return l.appendAlone(ctx, p)
	})
}

func (p *proposal) wrong() error {
	return &eventstore.WrongRevisionError{Stream: p.stream, Expected: p.expected}
}

// unreachable is a revision that no stream will ever have.
const unreachable = 1<<63 - 2

// appendAlone appends by a separate call, which every server has. With an ErrWrongRevision it returns the stream's last
// revision, or unreachable if the server does not name it.
func (l *link) appendAlone(ctx context.Context, p *proposal) (eventstore.Appended, error) {
	options := &streams.AppendReq_Options{
		StreamIdentifier:       named(p.stream),
		ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
	}
	if p.expected >= 0 {
		options.ExpectedStreamRevision = &streams.AppendReq_Options_Revision{Revision: uint64(p.expected)}
	}
	call, err := l.streams.Append(leading(ctx))
	if err != nil {
		return eventstore.Appended{}, refused(err, nil)
	}
	err = call.Send(&streams.AppendReq{Content: &streams.AppendReq_Options_{Options: options}})
	for i := 0; err == nil && i < len(p.events); i++ {
		event := p.events[i]
		err = call.Send(&streams.AppendReq{Content: &streams.AppendReq_ProposedMessage_{
			ProposedMessage: &streams.AppendReq_ProposedMessage{
				Id:             event.GetId(),
				Metadata:       event.GetMetadata(),
				CustomMetadata: event.GetCustomMetadata(),
				Data:           event.GetData(),
			},
		}})
	}
	if err != nil && !errors.Is(err, io.EOF) { // the end of the stream means that the answer says why
		return eventstore.Appended{}, ended(call, err)
	}
	response, err := call.CloseAndRecv()
	if err != nil {
		return eventstore.Appended{}, ended(call, err)
	}
	l.heard.Add(1)
	if wrong := response.GetWrongExpectedVersion(); wrong != nil {
		current := eventstore.Revision(unreachable)
		switch option := wrong.GetCurrentRevisionOption().(type) {
		case *streams.AppendResp_WrongExpectedVersion_CurrentRevision:
			current = revisionOf(option.CurrentRevision)
		case *streams.AppendResp_WrongExpectedVersion_CurrentNoStream:
			current = eventstore.NoStream
		}
		return eventstore.Appended{Revision: current}, p.wrong()
	}
	success := response.GetSuccess()
	return eventstore.Appended{
		Revision: revisionOf(success.GetCurrentRevision()),
		Position: positionOf(success.GetPosition()),
	}, nil
}

// Tombstone ends a stream permanently. A stream that has ended stays so.
func (s *Store) Tombstone(ctx context.Context, stream string) error {
	_, err := led(ctx, s, func(ctx context.Context, l *link, _ *wait) (*streams.TombstoneResp, error) {
		var trailer metadata.MD
		response, err := l.streams.Tombstone(leading(ctx), &streams.TombstoneReq{Options: &streams.TombstoneReq_Options{
			StreamIdentifier:       named(stream),
			ExpectedStreamRevision: &streams.TombstoneReq_Options_Any{Any: &shared.Empty{}},
		}}, grpc.Trailer(&trailer))
		return response, refused(err, trailer)
	})
	if err != nil && !errors.Is(err, eventstore.ErrStreamDeleted) {
		return fmt.Errorf("tombstone %s: %w", stream, err)
	}
	return nil
}

// LastRevision returns the revision of a stream's last event, whether that can still be read, is hidden, or is gone:
// the next event comes after it. It is NoStream if there never was an event. Errors: ErrStreamDeleted, ErrUnavailable.
func (s *Store) LastRevision(ctx context.Context, stream string) (last eventstore.Revision, err error) {
	// Servers that can name the last revision do so if nothing is left to read; not if the stream was deleted.
	last = unreachable
	options := fromEnd(stream)
	options.ControlOption = &streams.ReadReq_Options_ControlOption{Compatibility: 1}
	err = s.read(ctx, func() *streams.ReadReq_Options { return options }, func(message *streams.ReadResp) bool {
		switch content := message.GetContent().(type) {
		case *streams.ReadResp_Event:
			last = revisionOf(content.Event.GetEvent().GetStreamRevision())
		case *streams.ReadResp_LastStreamPosition:
			last = revisionOf(content.LastStreamPosition)
		}
		return true
	})
	if err == nil && last == unreachable { // the refusal to append nothing names it
		last, err = led(ctx, s, func(ctx context.Context, l *link, _ *wait) (eventstore.Revision, error) {
			appended, err := l.appendAlone(ctx, &proposal{stream: stream, expected: unreachable})
			if errors.Is(err, eventstore.ErrWrongRevision) {
				err = nil
			}
			return appended.Revision, err
		})
		if err == nil && last == unreachable {
			err = errors.New("the server does not name that of a stream that was deleted")
		}
	}
	if err != nil {
		return eventstore.NoStream, fmt.Errorf("last revision of %s: %w", stream, err)
	}
	return last, nil
}
