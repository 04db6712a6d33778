package node

import (
	"context"
	"errors"
	"io"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore/node/internal/store"
)

const (
	// maxUnfinishedBytes bounds what the appends of one call take whose messages are still coming in.
	maxUnfinishedBytes = 64 << 20
	// maxBatchesPending bounds the appends of one call that wait for the disk.
	maxBatchesPending = 256
)

// batch is one append within a BatchAppend call, collected until its final message.
type batch struct {
	id      *shared.UUID // of its messages and its answer
	stream  *shared.StreamIdentifier
	until   time.Time // zero means no deadline
	request appendRequest

	bytes int         // of its messages
	timer *time.Timer // ends it while it is unfinished; nil if it has no deadline
}

// BatchAppend answers any number of appends over one call. They are carried out in the order of their final messages,
// and answered in that order: the order in which they become durable.
func (n streamsService) BatchAppend(call streams.Streams_BatchAppendServer) error {
	if work, _ := n.config.Quirks.Batches(); !work {
		return status.Error(codes.Unimplemented, "unknown method BatchAppend")
	}
	ctx, cancel := context.WithCancel(call.Context())
	defer cancel()
	var (
		pending  = make(chan pendingBatch, maxBatchesPending)
		open     = newUnfinished(ctx.Done())
		answered = make(chan struct{})
	)
	go func() {
		defer close(answered)
		for {
			var err error
			select {
			case p, more := <-pending:
				if !more {
					return
				}
				err = p.answer(n.Node, call)
			case b := <-open.expired:
				err = call.Send(b.failed(context.DeadlineExceeded))
			}
			if err != nil {
				cancel() // the client is gone, and RecvMsg will say so
			}
		}
	}()
	defer func() {
		open.stop()
		close(pending)
		<-answered
	}()
	for {
		message, err := call.Recv()
		if errors.Is(err, io.EOF) {
			return nil
		}
		var b *batch
		if err == nil {
			b, err = open.take(n.Node, message)
		}
		switch {
		case err != nil:
			return answer(ctx, "", err)
		case b == nil:
			continue
		}
		if err := n.config.Quirks.Led(ctx); err != nil {
			return answer(ctx, "", err)
		}
		wait, release := n.startBatch(ctx, b)
		if wait == nil {
			release()
			continue
		}
		select {
		case pending <- pendingBatch{batch: b, wait: wait, release: release}:
		case <-ctx.Done():
			release()
			return ctx.Err()
		}
	}
}

func (b *batch) open(options *streams.BatchAppendReq_Options, now time.Time) {
	b.stream, b.until = options.GetStreamIdentifier(), deadlineOf(options, now)
	b.request.open(b.stream, expectedOf(options.GetExpectedStreamPosition() != nil,
		options.GetStreamPosition(), options.GetNoStream(), options.GetAny(), options.GetStreamExists()))
}

// deadlineOf returns when an append is to be given up. Limits that make no sense are none.
func deadlineOf(options *streams.BatchAppendReq_Options, now time.Time) time.Time {
	const maxLimit = 100 * 365 * 24 * time.Hour
	limit := options.GetDeadline().AsDuration()
	if at := options.GetDeadline_21_10_0(); at.IsValid() { // as older clients say so
		limit = at.AsTime().Sub(now)
	}
	if limit == 0 || limit < -maxLimit || limit > maxLimit {
		return time.Time{}
	}
	return now.Add(limit)
}

func (b *batch) add(events []*streams.BatchAppendReq_ProposedMessage) {
	for _, event := range events {
		if b.request.err == nil && !b.request.opened {
			b.request.err = invalid("an append begins with its options")
		}
		if b.request.err != nil {
			return
		}
		b.request.addEvent(event)
	}
}

// pendingBatch is an append that waits for the disk.
type pendingBatch struct {
	*batch
	wait    func() (store.Result, error)
	release func()
}

func (p *pendingBatch) answer(n *Node, call streams.Streams_BatchAppendServer) error {
	defer p.release()
	result, err := p.wait()
	if err == nil {
		err = n.config.Quirks.Recorded(n.store)
	}
	if err != nil {
		return call.Send(p.failed(err))
	}
	return call.Send(p.succeeded(result))
}

// startBatch hands a collected append to the store. The functions returned wait for its outcome, and free what its
// deadline holds. There is no outcome to wait for if quirks leave the append unanswered.
func (n *Node) startBatch(ctx context.Context, b *batch) (wait func() (store.Result, error), release func()) {
	release = func() {}
	// When the call ends, the appends handed to the store are carried out all the same. If they were withdrawn, one after
	// the other, some later one would be carried out in between, while clients rely on the order: after an interruption
	// they find the first part of their appends.
	ctx = context.WithoutCancel(ctx)
	if b.request.err == nil && !b.request.opened {
		b.request.err = invalid("append without options")
	}
	if b.request.err == nil {
		if !b.until.IsZero() {
			ctx, release = context.WithTimeout(ctx, b.until.Sub(n.config.Now()))
		}
		var held <-chan struct{}
		again := false
		if len(b.request.events) > 0 {
			n.config.Quirks.Spend()
			held, again = n.config.Quirks.Hold(b.request.stream, b.request.first)
		}
		if again {
			return nil, release
		}
		if held != nil {
			return func() (store.Result, error) {
				if err := n.released(held); err != nil {
					return store.Result{}, err
				}
				return n.store.Append(context.WithoutCancel(ctx), b.request.stream, b.request.expected, b.request.events)
			}, release
		}
		wait, b.request.err = n.store.Start(ctx, b.request.stream, b.request.expected, b.request.events)
	}
	if err := b.request.err; err != nil {
		return func() (store.Result, error) { return store.Result{}, err }, release
	}
	return wait, release
}

// succeeded is the answer to an append that is durable. Like those of real servers it does not repeat what was
// expected.
func (b *batch) succeeded(result store.Result) *streams.BatchAppendResp {
	success := &streams.BatchAppendResp_Success{
		CurrentRevisionOption: &streams.BatchAppendResp_Success_NoStream{NoStream: &emptypb.Empty{}},
		PositionOption:        &streams.BatchAppendResp_Success_NoPosition{NoPosition: &emptypb.Empty{}},
	}
	if result.Revision >= 0 {
		success.CurrentRevisionOption = &streams.BatchAppendResp_Success_CurrentRevision{
			CurrentRevision: uint64(result.Revision),
		}
	}
	if result.Position > 0 {
		success.PositionOption = &streams.BatchAppendResp_Success_Position{
			Position: &shared.AllStreamPosition{CommitPosition: result.Position, PreparePosition: result.Position},
		}
	}
	return &streams.BatchAppendResp{
		CorrelationId:    b.id,
		StreamIdentifier: b.stream,
		Result:           &streams.BatchAppendResp_Success_{Success: success},
	}
}

// failed is the answer to an append that was refused, or of which nothing is known.
func (b *batch) failed(err error) *streams.BatchAppendResp {
	return &streams.BatchAppendResp{
		CorrelationId:    b.id,
		StreamIdentifier: b.stream,
		Result:           &streams.BatchAppendResp_Error{Error: batchStatus(b.request.stream, err).Proto()},
	}
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
	case described.code == codes.PermissionDenied:
		detail = &shared.AccessDenied{}
	case described.code == codes.InvalidArgument && len(described.trailers.Get(trailerMaxAppendSize)) > 0:
		detail = &shared.MaximumAppendSizeExceeded{MaxAppendSize: store.MaxAppendBytes}
	case described.code == codes.InvalidArgument:
		detail = &shared.BadRequest{Message: described.message}
	default:
		detail = &shared.Unknown{}
	}
	code := described.code
	switch {
	case wrong != nil:
		code = codes.AlreadyExists
	case errors.Is(err, store.ErrStreamDeleted):
		code = codes.NotFound
	}
	plain := status.New(code, described.message)
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
