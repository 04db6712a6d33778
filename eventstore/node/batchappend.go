package node

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

const (
	// maxBatchesOpen bounds the appends of one call whose messages are still coming in.
	maxBatchesOpen = 64
	// maxBatchesPending bounds the appends of one call that wait for the disk.
	maxBatchesPending = 256
)

// batch is one append within a BatchAppend call, collected until its final message.
type batch struct {
	id      *shared.UUID
	options *streams.BatchAppendReq_Options
	request appendRequest
}

// batchAppend answers any number of appends over one call. They are carried out in the order of their final messages.
func (n *Node) batchAppend(call grpc.ServerStream) error {
	if strict := n.config.Strict; strict != nil && strict.NoBatches {
		return status.Error(codes.Unimplemented, "unknown method BatchAppend")
	}
	ctx, cancel := context.WithCancel(call.Context())
	defer cancel()
	var (
		sending sync.Mutex
		waiting sync.WaitGroup
		pending = make(chan struct{}, maxBatchesPending)
		open    = map[string]*batch{}
	)
	defer waiting.Wait()
	reply := func(response *streams.BatchAppendResp) {
		sending.Lock()
		defer sending.Unlock()
		if call.SendMsg(response) != nil {
			cancel() // the client is gone, and RecvMsg will say so
		}
	}
	for {
		message := &streams.BatchAppendReq{}
		if err := call.RecvMsg(message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		b, err := n.collect(open, message)
		if err != nil {
			return answer(ctx, "", err)
		}
		if !message.GetIsFinal() {
			continue
		}
		if err := n.config.Strict.led(ctx); err != nil {
			return answer(ctx, "", err)
		}
		select {
		case pending <- struct{}{}:
		case <-ctx.Done():
			return ctx.Err()
		}
		wait, release := n.startBatch(ctx, b)
		waiting.Go(func() {
			defer func() { <-pending }()
			defer release()
			result, err := wait()
			if err == nil {
				err = n.config.Strict.recorded(n)
			}
			reply(b.response(result, err))
		})
	}
}

// collect adds a message to the batch it belongs to.
func (n *Node) collect(open map[string]*batch, message *streams.BatchAppendReq) (*batch, error) {
	id := message.GetCorrelationId()
	key := id.String()
	b := open[key]
	if b == nil {
		if len(open) >= maxBatchesOpen {
			return nil, failure(codes.ResourceExhausted, "too many appends are open at once")
		}
		b = &batch{id: id, request: appendRequest{strict: n.config.Strict}}
		open[key] = b
	}
	if options := message.GetOptions(); options != nil {
		b.open(options)
	}
	for _, proposed := range message.GetProposedMessages() {
		b.add(proposed)
	}
	if message.GetIsFinal() {
		delete(open, key)
	}
	return b, nil
}

func (b *batch) open(options *streams.BatchAppendReq_Options) {
	b.options = options
	b.request.opened, b.request.stream = true, string(options.GetStreamIdentifier().GetStreamName())
	switch expected := options.GetExpectedStreamPosition().(type) {
	case *streams.BatchAppendReq_Options_StreamPosition:
		b.request.expected = store.Revision(expected.StreamPosition)
	case *streams.BatchAppendReq_Options_NoStream:
		b.request.expected = store.NoStream()
	case *streams.BatchAppendReq_Options_Any:
		b.request.expected = store.Any()
	case *streams.BatchAppendReq_Options_StreamExists:
		b.request.expected = store.StreamExists()
	}
	b.request.err = checkWritable(b.request.stream)
}

func (b *batch) add(proposed *streams.BatchAppendReq_ProposedMessage) {
	if b.request.err != nil {
		return
	}
	if !b.request.opened {
		b.request.err = invalid("an append begins with its options")
		return
	}
	id, err := eventID(proposed.GetId())
	if err != nil {
		b.request.err = err
		return
	}
	properties := proposed.GetMetadata()
	for _, key := range []string{wire.KeyType, wire.KeyContentType} {
		if _, ok := properties[key]; !ok {
			b.request.err = &wire.MissingMetadataError{Key: key}
			return
		}
	}
	b.request.addEvent(store.EventContent{
		ID: id, Type: []byte(properties[wire.KeyType]),
		JSON:     properties[wire.KeyContentType] == wire.ContentTypeJSON,
		Metadata: proposed.GetCustomMetadata(), Data: proposed.GetData(),
	})
}

func eventID(id *shared.UUID) (store.EventID, error) {
	switch form := id.GetValue().(type) {
	case *shared.UUID_Structured_:
		var parsed store.EventID
		binary.BigEndian.PutUint64(parsed[:8], uint64(form.Structured.GetMostSignificantBits()))  // #nosec G115 -- bits
		binary.BigEndian.PutUint64(parsed[8:], uint64(form.Structured.GetLeastSignificantBits())) // #nosec G115 -- bits
		return parsed, nil
	case *shared.UUID_String_:
		parsed, err := uuid.Parse(form.String_)
		if err != nil {
			return store.EventID{}, fmt.Errorf("%w: event id: %w", wire.ErrMalformed, err)
		}
		return store.EventID(parsed), nil
	}
	return store.EventID{}, fmt.Errorf("%w: event without id", wire.ErrMalformed)
}

// startBatch hands a collected append to the store. The functions returned wait for its outcome, and free what its
// deadline holds.
func (n *Node) startBatch(ctx context.Context, b *batch) (wait func() (store.Result, error), release func()) {
	release = func() {}
	if b.request.err == nil && !b.request.opened {
		b.request.err = invalid("append without options")
	}
	if b.request.err == nil {
		if deadline, ok := b.deadline(n.config.Now()); ok {
			ctx, release = context.WithTimeout(ctx, deadline)
		}
		wait, b.request.err = n.store.Start(ctx, b.request.stream, b.request.expected, b.request.events)
	}
	if err := b.request.err; err != nil {
		return func() (store.Result, error) { return store.Result{}, err }, release
	}
	return wait, release
}

func (b *batch) deadline(now time.Time) (time.Duration, bool) {
	switch option := b.options.GetDeadlineOption().(type) {
	case *streams.BatchAppendReq_Options_Deadline:
		return option.Deadline.AsDuration(), option.Deadline.IsValid()
	case *streams.BatchAppendReq_Options_Deadline_21_10_0:
		return option.Deadline_21_10_0.AsTime().Sub(now), option.Deadline_21_10_0.IsValid()
	}
	return 0, false
}

func (b *batch) response(result store.Result, err error) *streams.BatchAppendResp {
	response := &streams.BatchAppendResp{
		CorrelationId: b.id, StreamIdentifier: b.options.GetStreamIdentifier(),
	}
	switch expected := b.options.GetExpectedStreamPosition().(type) {
	case *streams.BatchAppendReq_Options_StreamPosition:
		response.ExpectedStreamPosition =
			&streams.BatchAppendResp_StreamPosition{StreamPosition: expected.StreamPosition}
	case *streams.BatchAppendReq_Options_NoStream:
		response.ExpectedStreamPosition = &streams.BatchAppendResp_NoStream{NoStream: &emptypb.Empty{}}
	case *streams.BatchAppendReq_Options_Any:
		response.ExpectedStreamPosition = &streams.BatchAppendResp_Any{Any: &emptypb.Empty{}}
	case *streams.BatchAppendReq_Options_StreamExists:
		response.ExpectedStreamPosition = &streams.BatchAppendResp_StreamExists{StreamExists: &emptypb.Empty{}}
	}
	if err != nil {
		response.Result = &streams.BatchAppendResp_Error{Error: batchStatus(b.request.stream, err).Proto()}
		return response
	}
	success := &streams.BatchAppendResp_Success{}
	if result.Revision >= 0 {
		success.CurrentRevisionOption =
			&streams.BatchAppendResp_Success_CurrentRevision{CurrentRevision: uint64(result.Revision)}
	} else {
		success.CurrentRevisionOption = &streams.BatchAppendResp_Success_NoStream{NoStream: &emptypb.Empty{}}
	}
	if result.Position > 0 {
		success.PositionOption = &streams.BatchAppendResp_Success_Position{Position: &shared.AllStreamPosition{
			CommitPosition: result.Position, PreparePosition: result.Position,
		}}
	} else {
		success.PositionOption = &streams.BatchAppendResp_Success_NoPosition{NoPosition: &emptypb.Empty{}}
	}
	response.Result = &streams.BatchAppendResp_Success_{Success: success}
	return response
}

// batchStatus describes a failed append; clients look at the detail.
func batchStatus(stream string, err error) *status.Status {
	described := describe(stream, err)
	var wrong *store.WrongRevisionError
	var detail protoadapt.MessageV1
	switch {
	case errors.As(err, &wrong):
		detail = wrongVersionDetail(wrong)
	case errors.Is(err, store.ErrStreamDeleted):
		detail = &shared.StreamDeleted{StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)}}
	case errors.Is(err, context.DeadlineExceeded):
		detail = &shared.Timeout{}
	case described.code == codes.InvalidArgument && len(described.trailers.Get(trailerMaxAppendSize)) > 0:
		detail = &shared.MaximumAppendSizeExceeded{MaxAppendSize: maxAppendSize}
	case described.code == codes.InvalidArgument:
		detail = &shared.BadRequest{Message: described.message}
	default:
		detail = &shared.Unknown{}
	}
	plain := status.New(described.code, described.message)
	if detailed, err := plain.WithDetails(detail); err == nil {
		return detailed
	}
	return plain
}

func wrongVersionDetail(wrong *store.WrongRevisionError) *shared.WrongExpectedVersion {
	detail := &shared.WrongExpectedVersion{}
	if wrong.Current >= 0 {
		detail.CurrentStreamRevisionOption =
			&shared.WrongExpectedVersion_CurrentStreamRevision{CurrentStreamRevision: uint64(wrong.Current)}
	} else {
		detail.CurrentStreamRevisionOption =
			&shared.WrongExpectedVersion_CurrentNoStream{CurrentNoStream: &emptypb.Empty{}}
	}
	revision, exact := wrong.Expected.Exact()
	switch {
	case exact:
		detail.ExpectedStreamPositionOption =
			&shared.WrongExpectedVersion_ExpectedStreamPosition{ExpectedStreamPosition: revision}
	case wrong.Expected.IsNoStream():
		detail.ExpectedStreamPositionOption =
			&shared.WrongExpectedVersion_ExpectedNoStream{ExpectedNoStream: &emptypb.Empty{}}
	case wrong.Expected.IsStreamExists():
		detail.ExpectedStreamPositionOption =
			&shared.WrongExpectedVersion_ExpectedStreamExists{ExpectedStreamExists: &emptypb.Empty{}}
	default:
		detail.ExpectedStreamPositionOption =
			&shared.WrongExpectedVersion_ExpectedAny{ExpectedAny: &emptypb.Empty{}}
	}
	return detail
}
