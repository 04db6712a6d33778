package inprocess

import (
	"context"
	"errors"
	"io"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Conn is a caller's connection to a Server, in place of a grpc.ClientConn. Of call options it knows grpc.Trailer.
type Conn struct {
	server *Server
	codec  encoding.CodecV2
	ctx    context.Context // ends with the connection, and the cause says which side ended it
	close  context.CancelCauseFunc
}

var _ grpc.ClientConnInterface = (*Conn)(nil)

// Connect makes a connection whose messages a codec encodes and decodes.
func (s *Server) Connect(codec encoding.CodecV2) *Conn {
	ctx, cancel := context.WithCancelCause(s.ctx)
	return &Conn{server: s, codec: codec, ctx: ctx, close: cancel}
}

// GetState is Ready until either side has ended the connection.
func (c *Conn) GetState() connectivity.State {
	if c.ctx.Err() != nil {
		return connectivity.Shutdown
	}
	return connectivity.Ready
}

// WaitForStateChange waits until the state is another one; false where the context ended first.
func (c *Conn) WaitForStateChange(ctx context.Context, from connectivity.State) bool {
	if c.GetState() != from {
		return true
	}
	select {
	case <-c.ctx.Done():
		return true
	case <-ctx.Done():
		return false
	}
}

// Close ends the connection with all its calls.
func (c *Conn) Close() error {
	c.close(errClosed)
	return nil
}

// Invoke implements grpc.ClientConnInterface.
func (c *Conn) Invoke(ctx context.Context, method string, request, response any, options ...grpc.CallOption) error {
	stream, err := c.NewStream(ctx, &grpc.StreamDesc{}, method, options...)
	if err != nil {
		return err
	}
	if err := stream.SendMsg(request); err != nil && !errors.Is(err, io.EOF) { // the answer says why
		return err
	}
	_ = stream.CloseSend() // never fails
	err = stream.RecvMsg(response)
	for _, option := range options {
		if wanted, ok := option.(grpc.TrailerCallOption); ok {
			*wanted.TrailerAddr = stream.Trailer()
		}
	}
	return err
}

// NewStream implements grpc.ClientConnInterface.
func (c *Conn) NewStream(ctx context.Context, described *grpc.StreamDesc, method string, _ ...grpc.CallOption) (grpc.ClientStream, error) {
	if c.ctx.Err() != nil {
		return nil, context.Cause(c.ctx) //nolint:contextcheck // why the connection ended
	}
	if err := ctx.Err(); err != nil {
		return nil, status.FromContextError(err).Err()
	}
	begun := newCall(ctx, method, c)
	if err := c.server.start(begun); err != nil {
		begun.cancel(err)
		return nil, err
	}
	return &calling{call: begun, codec: c.codec, of: ctx, single: !described.ServerStreams}, nil
}

// calling is a call as its caller sees it.
type calling struct {
	*call
	codec  encoding.CodecV2
	of     context.Context
	single bool // one answer, which its end follows
	ended  bool
}

// Header implements grpc.ClientStream.
func (*calling) Header() (metadata.MD, error) { return metadata.MD{}, nil }

// Trailer implements grpc.ClientStream. It is valid once RecvMsg has told the end.
func (c *calling) Trailer() metadata.MD {
	if !c.ended {
		return nil
	}
	return c.trailer
}

// CloseSend implements grpc.ClientStream.
func (c *calling) CloseSend() error {
	c.up.finish(io.EOF)
	return nil
}

// Context implements grpc.ClientStream.
func (c *calling) Context() context.Context { return c.of }

// SendMsg implements grpc.ClientStream. The end of the call is io.EOF, and RecvMsg says why.
func (c *calling) SendMsg(message any) error {
	data, err := c.codec.Marshal(message)
	if err != nil {
		return status.Errorf(codes.Internal, "encode a request: %v", err)
	}
	if c.up.put(c.ctx, data) != nil {
		return io.EOF
	}
	return nil
}

// RecvMsg implements grpc.ClientStream.
func (c *calling) RecvMsg(into any) error {
	if err := c.receive(into); err != nil || !c.single {
		return err
	}
	data, err := c.down.take(c.ctx)
	if err == nil {
		data.Free()
		return c.over(status.Error(codes.Internal, "more than one answer"))
	}
	if err = c.over(err); errors.Is(err, io.EOF) {
		return nil
	}
	return err
}

func (c *calling) receive(into any) error {
	data, err := c.down.take(c.ctx)
	if err != nil {
		return c.over(err)
	}
	defer data.Free()
	if err := c.codec.Unmarshal(data, into); err != nil {
		return c.over(status.Errorf(codes.Internal, "decode an answer: %v", err))
	}
	return nil
}

// over ends the call for the caller. The handler's last word came before its context ended, if there was one.
func (c *calling) over(err error) error {
	c.down.mu.Lock()
	c.ended = c.down.end != nil
	c.down.mu.Unlock()
	c.cancel(context.Canceled)
	return failed(err)
}
