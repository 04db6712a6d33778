package node

import (
	"context"
	"errors"
	"io"
	"math"
	"strings"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/quirks"
	"carillon/eventstore/node/internal/store"
)

const (
	allStream = "$all"
	// eventOverhead is an event's size in memory besides its content.
	eventOverhead = 64
)

// Append answers one append call: the options, the events, the end; then one response.
func (n streamsService) Append(call streams.Streams_AppendServer) error {
	request := appendRequest{quirks: n.config.Quirks, shared: n.shared.Load()}
	for {
		message, err := call.Recv()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		request.add(message)
	}
	if request.err == nil && !request.opened {
		request.err = invalid("append without options")
	}
	if request.err != nil {
		return answer(call.Context(), request.stream, request.err)
	}
	ctx, err := n.replicated(call.Context(), &request)
	if err != nil {
		return answer(call.Context(), request.stream, err)
	}
	result, err := n.store.Append(ctx, request.stream, request.expected, request.events)
	if err == nil {
		err = n.config.Quirks.Recorded(n.store)
	}
	var wrong *store.WrongRevisionError
	switch {
	case errors.As(err, &wrong):
		return call.SendAndClose(wrongVersionResponse(wrong))
	case err != nil:
		return answer(call.Context(), request.stream, err)
	}
	return call.SendAndClose(successResponse(result))
}

// replicated waits until an append may be recorded, and returns the context for that: an append that waited is recorded
// even if its caller has gone.
func (n *Node) replicated(ctx context.Context, request *appendRequest) (context.Context, error) {
	if len(request.events) == 0 {
		return ctx, nil
	}
	n.config.Quirks.Spend()
	resumed, again := n.config.Quirks.Hold(request.stream, request.first)
	switch {
	case again:
		return ctx, n.unanswered(ctx)
	case resumed == nil:
		return ctx, nil
	}
	return context.WithoutCancel(ctx), n.released(resumed)
}

// released waits for replication.
func (n *Node) released(resumed <-chan struct{}) error {
	select {
	case <-resumed:
		return nil
	case <-n.store.Closing():
		return errClosing
	}
}

// unanswered waits for the end of a call.
func (n *Node) unanswered(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-n.store.Closing():
		return errClosing
	}
}

// appendRequest collects an append. After the first fault it only drains: a client that is still sending would take
// an early answer for a broken connection.
type appendRequest struct {
	stream   string
	expected store.Expected
	events   []store.Proposed
	size     int // as counted to the limit of an append
	taken    int // of all there is
	opened   bool
	err      error
	quirks   quirks.Quirks
	first    store.EventID // of the first event
	shared   bool          // by others than the node's user
}

func (r *appendRequest) add(message *streams.AppendReq) {
	if r.err != nil {
		return
	}
	options, event := message.GetOptions(), message.GetProposedMessage()
	switch {
	case options == nil && event == nil:
		r.err = invalid("append without options or event")
	case (options != nil) == r.opened:
		r.err = invalid("an append is its options once, then its events")
	case options != nil:
		r.open(options.GetStreamIdentifier(), expectedOf(options.GetExpectedStreamRevision() != nil,
			options.GetRevision(), options.GetNoStream(), options.GetAny(), options.GetStreamExists()))
	default:
		r.addEvent(event)
	}
}

func (r *appendRequest) open(stream *shared.StreamIdentifier, expected store.Expected) {
	r.opened, r.stream, r.expected = true, string(stream.GetStreamName()), expected
	r.err = checkTarget(r.stream, r.expected)
}

func (r *appendRequest) addEvent(message proposal) {
	event, err := contentOf(message)
	if err != nil {
		r.err = err
		return
	}
	if len(r.events) == 0 {
		r.first = event.ID
	}
	r.size += r.quirks.Size(&event)
	r.taken += len(event.Data) + len(event.Metadata) + len(event.Type) + eventOverhead
	switch {
	case r.size > store.MaxAppendBytes:
		r.err = appendTooLarge()
		r.events = nil
	case r.taken > store.MaxRequestBytes: // as gRPC refuses a single message
		r.err = failure(codes.ResourceExhausted, "the append is larger than the 16 MiB that a request may have")
		r.events = nil
	case event.Type == "" || len(event.Type) > store.MaxNameBytes || !utf8.ValidString(event.Type):
		// Most clients can't read what is not UTF-8: one such event would end every read of $all.
		r.err = invalid("an event needs a type, of at most 8 KiB of UTF-8")
	case r.shared && hasACL(r.stream, &event):
		r.err = invalid("access control lists ($acl) are not supported: a node has one user at most, who may do " +
			"everything; leave $acl out")
	default:
		event.Stream = r.stream
		r.events = append(r.events, store.Propose(event))
	}
}

// checkTarget refuses names that no stream can have and revisions that no event can have.
func checkTarget(stream string, expected store.Expected) error {
	if revision, exact := expected.Exact(); exact && revision > store.MaxRevision {
		return invalid("an expected revision is below 2^63, or 2^64-1 for no stream")
	}
	return checkWritable(stream)
}

// checkWritable refuses names that no stream can have.
func checkWritable(stream string) error {
	switch {
	case stream == "":
		return invalid("the stream has no name")
	case len(stream) > store.MaxNameBytes:
		return invalid("a stream's name has at most 8 KiB")
	case !utf8.ValidString(stream):
		return invalid("a stream's name is UTF-8")
	case stream == allStream:
		return denied(": $all can't be written to")
	case strings.HasPrefix(stream, "$$$$"):
		return invalid("a metadata stream has no metadata stream")
	}
	return nil
}

func successResponse(result store.Result) *streams.AppendResp {
	success := &streams.AppendResp_Success{
		CurrentRevisionOption: &streams.AppendResp_Success_NoStream{NoStream: &shared.Empty{}},
		PositionOption:        &streams.AppendResp_Success_NoPosition{NoPosition: &shared.Empty{}},
	}
	if result.Revision >= 0 {
		success.CurrentRevisionOption = &streams.AppendResp_Success_CurrentRevision{CurrentRevision: uint64(result.Revision)}
	}
	if result.Position > 0 {
		success.PositionOption = &streams.AppendResp_Success_Position{
			Position: &streams.AppendResp_Position{CommitPosition: result.Position, PreparePosition: result.Position},
		}
	}
	return &streams.AppendResp{Result: &streams.AppendResp_Success_{Success: success}}
}

// wrongVersionResponse has both forms, as clients before 20.6 know only the older fields.
func wrongVersionResponse(wrong *store.WrongRevisionError) *streams.AppendResp {
	detail := &streams.AppendResp_WrongExpectedVersion{}
	if wrong.Current >= 0 {
		current := uint64(wrong.Current)
		detail.CurrentRevisionOption = &streams.AppendResp_WrongExpectedVersion_CurrentRevision{CurrentRevision: current}
		detail.CurrentRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_CurrentRevision_20_6_0{CurrentRevision_20_6_0: current}
	} else {
		detail.CurrentRevisionOption =
			&streams.AppendResp_WrongExpectedVersion_CurrentNoStream{CurrentNoStream: &shared.Empty{}}
		detail.CurrentRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_NoStream_20_6_0{NoStream_20_6_0: &shared.Empty{}}
	}
	revision, given := wrong.Expected.Given()
	switch {
	case given:
		detail.ExpectedRevisionOption =
			&streams.AppendResp_WrongExpectedVersion_ExpectedRevision{ExpectedRevision: revision}
		detail.ExpectedRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_ExpectedRevision_20_6_0{ExpectedRevision_20_6_0: revision}
	case wrong.Expected.IsStreamExists():
		detail.ExpectedRevisionOption =
			&streams.AppendResp_WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: &shared.Empty{}}
		detail.ExpectedRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_StreamExists_20_6_0{StreamExists_20_6_0: &shared.Empty{}}
	case wrong.Expected.IsNoStream():
		detail.ExpectedRevisionOption =
			&streams.AppendResp_WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: &shared.Empty{}}
		detail.ExpectedRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_ExpectedRevision_20_6_0{ExpectedRevision_20_6_0: math.MaxUint64}
	default:
		detail.ExpectedRevisionOption =
			&streams.AppendResp_WrongExpectedVersion_ExpectedAny{ExpectedAny: &shared.Empty{}}
		detail.ExpectedRevisionOption_20_6_0 =
			&streams.AppendResp_WrongExpectedVersion_Any_20_6_0{Any_20_6_0: &shared.Empty{}}
	}
	return &streams.AppendResp{Result: &streams.AppendResp_WrongExpectedVersion_{WrongExpectedVersion: detail}}
}

// Delete deletes a stream, which can be written to again.
func (n streamsService) Delete(ctx context.Context, request *streams.DeleteReq) (*streams.DeleteResp, error) {
	options := request.GetOptions()
	position, err := n.end(ctx, options.GetStreamIdentifier(), expectedOf(options.GetExpectedStreamRevision() != nil,
		options.GetRevision(), options.GetNoStream(), options.GetAny(), options.GetStreamExists()), n.store.Delete)
	if err != nil {
		return nil, err
	}
	return &streams.DeleteResp{PositionOption: &streams.DeleteResp_Position_{
		Position: &streams.DeleteResp_Position{CommitPosition: position, PreparePosition: position},
	}}, nil
}

// Tombstone ends a stream permanently.
func (n streamsService) Tombstone(ctx context.Context, request *streams.TombstoneReq) (*streams.TombstoneResp, error) {
	options := request.GetOptions()
	position, err := n.end(ctx, options.GetStreamIdentifier(), expectedOf(options.GetExpectedStreamRevision() != nil,
		options.GetRevision(), options.GetNoStream(), options.GetAny(), options.GetStreamExists()), n.store.Tombstone)
	if err != nil {
		return nil, err
	}
	return &streams.TombstoneResp{PositionOption: &streams.TombstoneResp_Position_{
		Position: &streams.TombstoneResp_Position{CommitPosition: position, PreparePosition: position},
	}}, nil
}

func (n *Node) end(
	ctx context.Context, identifier *shared.StreamIdentifier, expected store.Expected,
	write func(context.Context, string, store.Expected) (store.Result, error),
) (position uint64, err error) {
	stream := string(identifier.GetStreamName())
	err = checkTarget(stream, expected)
	if _, ok := store.DescribedStream(stream); ok && err == nil {
		err = invalid("a metadata stream can't be deleted")
	}
	if err != nil {
		return 0, answer(ctx, stream, err)
	}
	result, err := write(ctx, stream, expected)
	return result.Position, answer(ctx, stream, err)
}
