package node

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
)

const (
	maxDrainBytes = 4 << 20
	drainPiece    = 16 << 10
	drainPatience = time.Second
	// maxPublicBytes bounds messages that need no credentials. Those are empty, or name a service.
	maxPublicBytes = 4 << 10
	messageHeader  = 5 // a flag for compression, and the length
)

// asStreams registers calls of one message as streams: those reach checkStream before a message is read.
type asStreams struct{ grpc.ServiceRegistrar }

// RegisterService implements grpc.ServiceRegistrar.
func (s asStreams) RegisterService(desc *grpc.ServiceDesc, service any) {
	streamed := *desc
	streamed.Methods, streamed.Streams = nil, slices.Clone(desc.Streams)
	for _, method := range desc.Methods {
		small := public["/"+desc.ServiceName+"/"+method.MethodName]
		streamed.Streams = append(streamed.Streams, grpc.StreamDesc{
			StreamName: method.MethodName, ClientStreams: true, // else the interceptor is left out
			Handler: func(service any, call grpc.ServerStream) error {
				receive := call.RecvMsg
				if small {
					receive = func(message any) error { return receiveSmall(call.Context(), message) }
				}
				reply, err := method.Handler(service, call.Context(), receive, passOn)
				if err != nil {
					return err
				}
				return call.SendMsg(reply)
			},
		})
	}
	s.ServiceRegistrar.RegisterService(&streamed, service)
}

// passOn intercepts nothing: checkStream did.
func passOn(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	return handle(ctx, request)
}

// transport is grpc's state of a call: it reads the bytes of messages.
type transport interface {
	Read(n int) (mem.BufferSlice, error)
}

func transportOf(ctx context.Context) (transport, bool) {
	stream, ok := grpc.ServerTransportStreamFromContext(ctx).(transport)
	return stream, ok
}

// receiveSmall reads a message of at most maxPublicBytes.
func receiveSmall(ctx context.Context, message any) error {
	stream, ok := transportOf(ctx)
	into, isMessage := message.(proto.Message)
	if !ok || !isMessage {
		return status.Error(codes.Internal, "the call can't be read")
	}
	header, err := read(stream, messageHeader)
	if err != nil {
		return err
	}
	length := binary.BigEndian.Uint32(header[1:])
	if header[0] != 0 || length > maxPublicBytes {
		return status.Error(codes.ResourceExhausted, "the message is too large, or compressed")
	}
	body, err := read(stream, int(length))
	if err != nil {
		return err
	}
	if err := proto.Unmarshal(body, into); err != nil {
		return status.Error(codes.InvalidArgument, "malformed message")
	}
	return nil
}

func read(stream transport, n int) ([]byte, error) {
	data, err := stream.Read(n)
	if err != nil {
		return nil, err
	}
	defer data.Free()
	return data.Materialize(), nil
}

// refuseBatches answers the appends of a caller without credentials one by one, as real servers do, until a message is
// larger than those allowed without credentials.
func refuseBatches(ctx context.Context, send func(any) error) {
	for {
		message := &streams.BatchAppendReq{}
		if receiveSmall(ctx, message) != nil {
			return
		}
		if message.GetOptions() == nil {
			continue
		}
		refused := &batch{id: message.GetCorrelationId(), stream: message.GetOptions().GetStreamIdentifier()}
		if send(refused.failed(errAccessDenied)) != nil {
			return
		}
	}
}

var errRefused = errors.New("the call has been refused")

// refuse lets a client that is still sending finish, within limits: a client takes an early answer for a broken
// connection. It reads in pieces, so that no message of a refused caller is whole in memory.
func refuse(call grpc.ServerStream, batches bool) {
	stream, ok := transportOf(call.Context())
	if !ok {
		return
	}
	var sending sync.Mutex // nothing is sent after the handler has returned
	over := false
	sent := make(chan struct{})
	go func() { // it ends with the call, at the latest
		defer close(sent)
		if batches {
			refuseBatches(call.Context(), func(message any) error {
				sending.Lock()
				defer sending.Unlock()
				if over {
					return errRefused
				}
				return call.SendMsg(message)
			})
		}
		for left := maxDrainBytes; left > 0; left -= drainPiece {
			piece, err := stream.Read(drainPiece)
			piece.Free()
			if err != nil {
				return
			}
		}
	}()
	patience := time.NewTimer(drainPatience)
	defer patience.Stop()
	select {
	case <-sent:
	case <-patience.C:
	case <-call.Context().Done():
	}
	sending.Lock()
	defer sending.Unlock()
	over = true
}
