package node

import (
	"bytes"
	"context"
	"errors"
	"io"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore/node/internal/store"
	"carillon/eventstore/node/internal/wire"
)

const (
	// maxUnfinishedBytes bounds what the appends of one call take whose messages are still coming in.
	maxUnfinishedBytes = 64 << 20
	// maxBatchesPending bounds the appends of one call that wait for the disk.
	maxBatchesPending = 256
)

// batch is one append within a BatchAppend call, collected until its final message.
type batch struct {
	id      []byte // of its messages and its answer
	options []byte // as the client sent them
	within  time.Duration
	until   time.Time
	request appendRequest

	bytes int         // of its messages
	timer *time.Timer // ends it while it is unfinished; nil where it has no deadline
}

// batchAppend answers any number of appends over one call. They are carried out in the order of their final messages,
// and answered in that order: the order in which they become durable.
func (n *Node) batchAppend(call grpc.ServerStream) error {
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
				err = p.answer(n, call)
			case b := <-open.expired:
				err = call.SendMsg(b.failed(context.DeadlineExceeded))
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
		b, err := n.nextBatch(call, open)
		switch {
		case errors.Is(err, io.EOF):
			return nil
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

// nextBatch takes in a message, and returns the append that it completes, if it does.
func (n *Node) nextBatch(call grpc.ServerStream, open *unfinished) (*batch, error) {
	var raw wire.Raw
	if err := call.RecvMsg(&raw); err != nil {
		return nil, err
	}
	defer raw.Free()
	message, err := wire.ParseBatchRequest(raw.Bytes())
	if err != nil {
		return nil, err
	}
	return open.take(n, &message, len(raw.Bytes()))
}

func (b *batch) open(message *wire.BatchRequest) {
	b.options, b.within, b.until = bytes.Clone(message.Options), message.Within, message.Until
	b.request.opened, b.request.stream, b.request.expected = true, string(message.Stream), message.Expected
	b.request.err = checkTarget(b.request.stream, b.request.expected)
}

func (b *batch) add(message *wire.BatchRequest) {
	if b.request.err != nil {
		return
	}
	if err := message.Events(func(event store.EventContent) error {
		if !b.request.opened {
			return invalid("an append begins with its options")
		}
		b.request.addEvent(event)
		return b.request.err
	}); err != nil {
		b.request.err = err
	}
}

// pendingBatch is an append that waits for the disk.
type pendingBatch struct {
	*batch
	wait    func() (store.Result, error)
	release func()
}

func (p *pendingBatch) answer(n *Node, call grpc.ServerStream) error {
	defer p.release()
	result, err := p.wait()
	if err == nil {
		err = n.config.Quirks.Recorded(n.store)
	}
	if err != nil {
		return call.SendMsg(p.failed(err))
	}
	message := wire.AppendBatchSuccess(make([]byte, 0, len(p.id)+len(p.options)+answerRoom), p.id, p.options, result)
	return call.SendMsg(&wire.Encoded{Buffer: mem.SliceBuffer(message)})
}

// answerRoom is what an answer needs besides what it repeats.
const answerRoom = 96

// startBatch hands a collected append to the store. The functions returned wait for its outcome, and free what its
// deadline holds. There is no outcome to wait for if quirks leave the append unanswered.
func (n *Node) startBatch(ctx context.Context, b *batch) (wait func() (store.Result, error), release func()) {
	release = func() {}
	// When the call ends, what the store was handed is carried out all the same. If it were withdrawn, one append after the
	// other, some later one would be carried out in between, while clients rely on the order: what they find after an
	// interruption is the first part of what they sent.
	ctx = context.WithoutCancel(ctx)
	if b.request.err == nil && !b.request.opened {
		b.request.err = invalid("append without options")
	}
	if b.request.err == nil {
		switch {
		case b.within > 0:
			ctx, release = withDeadline(ctx, b.within)
		case !b.until.IsZero():
			ctx, release = withDeadline(ctx, b.until.Sub(n.config.Now()))
		}
		var held <-chan struct{}
		again := false
		if len(b.request.events) > 0 {
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

// failed is the answer to an append that was refused, or of which nothing is known.
func (b *batch) failed(err error) *streams.BatchAppendResp {
	response := &streams.BatchAppendResp{Result: &streams.BatchAppendResp_Error{Error: batchStatus(b.request.stream, err).Proto()}}
	id, options := &shared.UUID{}, &streams.BatchAppendReq_Options{}
	if proto.Unmarshal(b.id, id) == nil {
		response.CorrelationId = id
	}
	if proto.Unmarshal(b.options, options) != nil {
		return response
	}
	response.StreamIdentifier = options.GetStreamIdentifier()
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
