package inprocess

import (
	"context"
	"errors"
	"io"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/status"
)

var (
	errStopped = status.Error(codes.Unavailable, "the server has stopped")
	errClosed  = status.Error(codes.Canceled, "the connection is closed")
)

// Server has services, as a grpc.Server has them, for callers in this process. Register them before the first call.
type Server struct {
	codec   encoding.CodecV2
	unary   grpc.UnaryServerInterceptor
	stream  grpc.StreamServerInterceptor
	most    int // bytes of a request's message
	methods map[string]*method
	ctx     context.Context // ends when calls are cut off
	cancel  context.CancelCauseFunc

	mu      sync.Mutex
	stopped bool
	calls   sync.WaitGroup
}

var _ grpc.ServiceRegistrar = (*Server)(nil)

// method is a unary one, or one that streams.
type method struct {
	service any
	unary   grpc.MethodHandler
	stream  grpc.StreamHandler
	info    grpc.StreamServerInfo
}

// NewServer makes a server whose calls go through two interceptors. Larger messages than most bytes are refused.
func NewServer(codec encoding.CodecV2, unary grpc.UnaryServerInterceptor, stream grpc.StreamServerInterceptor, most int) *Server {
	s := &Server{codec: codec, unary: unary, stream: stream, most: most, methods: map[string]*method{}}
	s.ctx, s.cancel = context.WithCancelCause(context.Background())
	return s
}

// RegisterService implements grpc.ServiceRegistrar.
func (s *Server) RegisterService(described *grpc.ServiceDesc, service any) {
	name := func(of string) string { return "/" + described.ServiceName + "/" + of }
	for _, m := range described.Methods {
		s.methods[name(m.MethodName)] = &method{service: service, unary: m.Handler}
	}
	for _, m := range described.Streams {
		s.methods[name(m.StreamName)] = &method{service: service, stream: m.Handler, info: grpc.StreamServerInfo{
			FullMethod: name(m.StreamName), IsClientStream: m.ClientStreams, IsServerStream: m.ServerStreams,
		}}
	}
}

// Stop takes no more calls, lets those that are under way go on for a time, and returns when none is.
func (s *Server) Stop(grace time.Duration) {
	s.mu.Lock()
	s.stopped = true
	s.mu.Unlock()
	timer := time.AfterFunc(grace, func() { s.cancel(errStopped) })
	defer timer.Stop()
	s.calls.Wait()
	s.cancel(errStopped)
}

// start runs a call's handler.
func (s *Server) start(c *call) error {
	m := s.methods[c.name]
	if m == nil {
		return status.Error(codes.Unimplemented, "unknown method "+c.name)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.stopped {
		return errStopped
	}
	s.calls.Go(func() { c.end(s.handle(m, &served{call: c, codec: s.codec, most: s.most})) })
	return nil
}

func (s *Server) handle(m *method, call *served) error {
	if m.stream != nil {
		return s.stream(m.service, call, &m.info, m.stream)
	}
	response, err := m.unary(m.service, call.Context(), call.RecvMsg, s.unary)
	if err != nil {
		return err
	}
	return call.SendMsg(response)
}

// statusOf is how clients see what a handler returned; io.EOF for nil.
func statusOf(err error) error {
	var described interface{ GRPCStatus() *status.Status }
	switch {
	case err == nil:
		return io.EOF
	case errors.As(err, &described) && described.GRPCStatus().Code() != codes.OK:
		return described.GRPCStatus().Err()
	}
	return status.FromContextError(err).Err()
}
