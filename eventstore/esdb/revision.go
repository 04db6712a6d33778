package esdb

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore"
)

// LastRevision is that of a stream's last event, whether that can still be read, is hidden, or is gone: the next event
// comes after it. It is NoStream where there never was an event. Errors: ErrStreamDeleted, ErrUnavailable.
func (s *Store) LastRevision(ctx context.Context, stream string) (eventstore.Revision, error) {
	last, err := led(ctx, s, callTimeout, func(ctx context.Context, l *link, _ *waits) (eventstore.Revision, error) {
		last, told, err := l.lastTold(ctx, stream)
		if err != nil || told {
			return last, err
		}
		return l.lastExpected(ctx, stream)
	})
	if err != nil {
		return eventstore.NoStream, fmt.Errorf("last revision of %s: %w", stream, err)
	}
	return last, nil
}

// lastTold reads the end of a stream. Servers that know of it tell the last revision where nothing is left to read; of a
// stream that was deleted they tell nothing.
func (l *link) lastTold(ctx context.Context, stream string) (last eventstore.Revision, told bool, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	options := ofStream(stream, &streams.ReadReq_Options_StreamOptions{
		RevisionOption: &streams.ReadReq_Options_StreamOptions_End{End: &shared.Empty{}},
	}, 1)
	options.ReadDirection = streams.ReadReq_Options_Backwards
	options.ControlOption = &streams.ReadReq_Options_ControlOption{Compatibility: 1}
	call, err := l.streams.Read(leading(ctx), &streams.ReadReq{Options: options})
	if err != nil {
		return last, false, refused(err, nil)
	}
	for {
		response, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return last, told, nil
		}
		if err != nil {
			return last, false, ended(call, err)
		}
		switch content := response.GetContent().(type) {
		case *streams.ReadResp_Event:
			last, told = eventstore.Revision(content.Event.GetEvent().GetStreamRevision()), true //nolint:gosec // revisions fit an int64 by protocol
		case *streams.ReadResp_LastStreamPosition:
			last, told = eventstore.Revision(content.LastStreamPosition), true //nolint:gosec // as above
		}
	}
}

// unreachable is a revision that no stream will ever have.
const unreachable = math.MaxInt64 - 1

// lastExpected asks to append nothing after a revision that the stream can't have. The refusal says which one it has.
func (l *link) lastExpected(ctx context.Context, stream string) (eventstore.Revision, error) {
	call, err := l.streams.Append(leading(ctx))
	if err != nil {
		return eventstore.NoStream, refused(err, nil)
	}
	err = call.Send(&streams.AppendReq{Content: &streams.AppendReq_Options_{Options: appendOptions(stream, unreachable)}})
	if err != nil && !errors.Is(err, io.EOF) { // the end of the stream means that the answer says why
		return eventstore.NoStream, ended(call, err)
	}
	response, err := call.CloseAndRecv()
	if err != nil {
		return eventstore.NoStream, ended(call, err)
	}
	switch current := response.GetWrongExpectedVersion().GetCurrentRevisionOption().(type) {
	case *streams.AppendResp_WrongExpectedVersion_CurrentRevision:
		return eventstore.Revision(current.CurrentRevision), nil //nolint:gosec // revisions fit an int64 by protocol
	case *streams.AppendResp_WrongExpectedVersion_CurrentNoStream:
		return eventstore.NoStream, nil
	}
	return eventstore.NoStream, errors.New("the server does not tell the last revision of a stream that was deleted")
}
