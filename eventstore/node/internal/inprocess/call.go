package inprocess

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
)

// call is what both sides of a call know.
type call struct {
	name     string
	ctx      context.Context // of the handler; the caller's waits end with it too
	cancel   context.CancelCauseFunc
	up, down *pipe
	trailer  metadata.MD // the handler's; the caller's once down has ended
}

// own is a context without what the caller keeps in it, which does not cross a wire either.
type own struct{ context.Context }

// Value implements context.Context.
func (own) Value(any) any { return nil }

// AfterFunc spares package context a goroutine for each call.
func (o own) AfterFunc(do func()) (stop func() bool) { return context.AfterFunc(o.Context, do) }

// address is the peer's of every call.
type address struct{}

// Network implements net.Addr.
func (address) Network() string { return "in-process" }

// String implements net.Addr.
func (address) String() string { return "in-process" }

// newCall makes a call of a context, which ends with the connection as well.
func newCall(ctx context.Context, name string, conn *Conn) *call {
	c := &call{name: name, up: newPipe(), down: newPipe()}
	inner, cancel := context.WithCancelCause(own{ctx})
	//nolint:contextcheck // it ends with its connection as well
	unbind := context.AfterFunc(conn.ctx, func() { cancel(context.Cause(conn.ctx)) })
	c.cancel = func(cause error) {
		unbind()
		cancel(cause)
	}
	headers, _ := metadata.FromOutgoingContext(ctx)
	inner = metadata.NewIncomingContext(inner, headers)
	inner = peer.NewContext(inner, &peer.Peer{Addr: address{}})
	c.ctx = grpc.NewContextWithServerTransportStream(inner, (*transport)(c))
	return c
}

// end tells the caller what came of the call.
func (c *call) end(err error) {
	c.up.finish(io.EOF)
	c.down.finish(statusOf(err))
	c.cancel(context.Canceled)
}

// transport lets a handler set trailers by its context.
type transport call

// Method implements grpc.ServerTransportStream.
func (t *transport) Method() string { return t.name }

// SetHeader implements grpc.ServerTransportStream.
func (*transport) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerTransportStream.
func (*transport) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerTransportStream.
func (t *transport) SetTrailer(trailer metadata.MD) error {
	t.trailer = metadata.Join(t.trailer, trailer)
	return nil
}

// served is a call as its handler sees it.
type served struct {
	*call
	codec encoding.CodecV2
	most  int
}

var _ grpc.ServerStream = (*served)(nil)

// SetHeader implements grpc.ServerStream.
func (*served) SetHeader(metadata.MD) error { return nil }

// SendHeader implements grpc.ServerStream.
func (*served) SendHeader(metadata.MD) error { return nil }

// SetTrailer implements grpc.ServerStream.
func (s *served) SetTrailer(trailer metadata.MD) { _ = (*transport)(s.call).SetTrailer(trailer) }

// Context implements grpc.ServerStream.
func (s *served) Context() context.Context { return s.ctx }

// SendMsg implements grpc.ServerStream.
func (s *served) SendMsg(message any) error {
	data, err := s.codec.Marshal(message)
	if err != nil {
		return status.Errorf(codes.Internal, "encode an answer: %v", err)
	}
	return failed(s.down.put(s.ctx, data))
}

// RecvMsg implements grpc.ServerStream.
func (s *served) RecvMsg(into any) error {
	data, err := s.up.take(s.ctx)
	if err != nil {
		return failed(err)
	}
	defer data.Free()
	if size := data.Len(); size > s.most {
		return status.Errorf(codes.ResourceExhausted, "received message larger than max (%d vs. %d)", size, s.most)
	}
	if err := s.codec.Unmarshal(data, into); err != nil {
		return status.Errorf(codes.Internal, "decode a request: %v", err)
	}
	return nil
}

// failed makes a status of what ended a wait; the end of the messages stays what it is.
func failed(err error) error {
	var described interface{ GRPCStatus() *status.Status }
	if err == nil || errors.Is(err, io.EOF) || errors.As(err, &described) {
		return err
	}
	return status.FromContextError(err).Err()
}
