package inprocess_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"testing"
	"testing/synctest"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node/internal/inprocess"
)

// plain is a codec of messages that are bytes.
type plain struct{}

func (plain) Name() string { return "plain" }

func (plain) Marshal(message any) (mem.BufferSlice, error) {
	bytes, ok := message.(*[]byte)
	if !ok {
		return nil, fmt.Errorf("%T is no message", message)
	}
	return mem.BufferSlice{mem.SliceBuffer(*bytes)}, nil
}

func (plain) Unmarshal(data mem.BufferSlice, into any) error {
	*into.(*[]byte) = data.Materialize() //nolint:forcetypeassert // as above
	return nil
}

const most = 4 << 20

// serve makes a server with one method of each kind, whose interceptors pass everything on.
func serve(stream grpc.StreamHandler, unary func(context.Context, []byte) ([]byte, error)) *inprocess.Server {
	s := inprocess.NewServer(plain{},
		func(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
			return handle(ctx, request)
		},
		func(service any, call grpc.ServerStream, _ *grpc.StreamServerInfo, handle grpc.StreamHandler) error {
			return handle(service, call)
		}, most)
	s.RegisterService(&grpc.ServiceDesc{
		ServiceName: "test",
		Methods: []grpc.MethodDesc{{MethodName: "Ask", Handler: func(
			_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
		) (any, error) {
			var request []byte
			if err := decode(&request); err != nil {
				return nil, err
			}
			return intercept(ctx, &request, nil, func(ctx context.Context, _ any) (any, error) {
				response, err := unary(ctx, request)
				return &response, err
			})
		}}},
		Streams: []grpc.StreamDesc{{StreamName: "Talk", Handler: stream, ClientStreams: true, ServerStreams: true}},
	}, nil)
	return s
}

func talk(t *testing.T, ctx context.Context, conn *inprocess.Conn) grpc.ClientStream {
	t.Helper()
	call, err := conn.NewStream(ctx, &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, "/test/Talk")
	if err != nil {
		t.Fatal(err)
	}
	return call
}

func TestACallIsAsOverAWire(t *testing.T) {
	t.Parallel()
	type key struct{}
	conn := serve(nil, func(ctx context.Context, request []byte) ([]byte, error) {
		if ctx.Value(key{}) != nil {
			t.Error("what the caller keeps in its context has come along")
		}
		if err := grpc.SetTrailer(ctx, metadata.Pairs("heard", metadata.ValueFromIncomingContext(ctx, "said")[0])); err != nil {
			t.Error(err)
		}
		if string(request) == "refuse" {
			return nil, status.Error(codes.FailedPrecondition, "refused")
		}
		return append(request, '!'), nil
	}).Connect(plain{})
	ctx := metadata.AppendToOutgoingContext(context.WithValue(t.Context(), key{}, 1), "said", "this")
	for _, c := range []struct {
		request, response string
		code              codes.Code
	}{{"hello", "hello!", codes.OK}, {"refuse", "", codes.FailedPrecondition}} {
		var response []byte
		var trailer metadata.MD
		request := []byte(c.request)
		err := conn.Invoke(ctx, "/test/Ask", &request, &response, grpc.Trailer(&trailer))
		if status.Code(err) != c.code || string(response) != c.response {
			t.Errorf("%s: %q, %v", c.request, response, err)
		}
		if heard := trailer.Get("heard"); len(heard) != 1 || heard[0] != "this" {
			t.Errorf("%s: trailer %v", c.request, trailer)
		}
	}
	request := []byte{}
	if err := conn.Invoke(ctx, "/test/None", &request, &request); status.Code(err) != codes.Unimplemented {
		t.Errorf("a method that there is not: %v", err)
	}
	request = make([]byte, most+1)
	if err := conn.Invoke(ctx, "/test/Ask", &request, &request); status.Code(err) != codes.ResourceExhausted {
		t.Errorf("a message that is too large: %v", err)
	}
}

func TestMessagesComeInOrderAndThenTheEnd(t *testing.T) {
	t.Parallel()
	conn := serve(func(_ any, call grpc.ServerStream) error {
		for {
			var message []byte
			err := call.RecvMsg(&message)
			if errors.Is(err, io.EOF) {
				call.SetTrailer(metadata.Pairs("over", "yes"))
				return nil
			}
			if err == nil {
				err = call.SendMsg(&message)
			}
			if err != nil {
				return err
			}
		}
	}, nil).Connect(plain{})
	call := talk(t, t.Context(), conn)
	const n = 1000
	go func() {
		for i := range n {
			message := []byte(fmt.Sprint(i))
			if err := call.SendMsg(&message); err != nil {
				t.Error(err)
			}
		}
		_ = call.CloseSend()
	}()
	for i := range n {
		var message []byte
		if err := call.RecvMsg(&message); err != nil || string(message) != fmt.Sprint(i) {
			t.Fatalf("message %d: %q, %v", i, message, err)
		}
	}
	var message []byte
	if err := call.RecvMsg(&message); !errors.Is(err, io.EOF) || len(call.Trailer().Get("over")) != 1 {
		t.Fatalf("the end: %v, trailer %v", err, call.Trailer())
	}
	if err := call.SendMsg(&message); !errors.Is(err, io.EOF) {
		t.Errorf("sent after the end: %v", err)
	}
}

// Whoever does not read holds up the other side alone, before it has filled the memory.
func TestWhoDoesNotReadHoldsUpWhoSends(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		const size, all = 64 << 10, 64
		sent := 0
		conn := serve(func(_ any, call grpc.ServerStream) error {
			for range all {
				message := make([]byte, size)
				if err := call.SendMsg(&message); err != nil {
					return err
				}
				sent++
			}
			return nil
		}, nil).Connect(plain{})
		call := talk(t, t.Context(), conn)
		synctest.Wait() // until nothing more can happen
		if sent == 0 || sent > 1<<20/size {
			t.Errorf("%d of %d messages of %d bytes were taken of whom nobody reads", sent, all, size)
		}
		var message []byte
		for range all {
			if err := call.RecvMsg(&message); err != nil {
				t.Fatal(err)
			}
		}
		if err := call.RecvMsg(&message); !errors.Is(err, io.EOF) || sent != all {
			t.Errorf("%d sent, %v", sent, err)
		}
	})
}

func TestWhoeverEndsACallEndsBothSides(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		end  func(cancel context.CancelFunc, conn *inprocess.Conn, server *inprocess.Server)
		code codes.Code
		gone bool // the connection
	}{
		"the caller": {func(cancel context.CancelFunc, _ *inprocess.Conn, _ *inprocess.Server) { cancel() }, codes.Canceled, false},
		"its time":   {func(context.CancelFunc, *inprocess.Conn, *inprocess.Server) { time.Sleep(time.Hour) }, codes.DeadlineExceeded, false},
		"connection": {func(_ context.CancelFunc, conn *inprocess.Conn, _ *inprocess.Server) { _ = conn.Close() }, codes.Canceled, true},
		"the server": {func(_ context.CancelFunc, _ *inprocess.Conn, server *inprocess.Server) { server.Stop(time.Minute) }, codes.Unavailable, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				ended := make(chan error, 1)
				server := serve(func(_ any, call grpc.ServerStream) error {
					var message []byte
					err := call.RecvMsg(&message) // nobody sends
					ended <- err
					return err
				}, nil)
				conn := server.Connect(plain{})
				ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
				defer cancel()
				call := talk(t, ctx, conn)
				synctest.Wait()
				began := time.Now()
				c.end(cancel, conn, server)
				var message []byte
				if err := call.RecvMsg(&message); status.Code(err) != c.code {
					t.Errorf("the caller hears %v", err)
				}
				if err := <-ended; status.Code(err) != c.code {
					t.Errorf("the handler hears %v", err)
				}
				if name == "the server" && time.Since(began) != time.Minute {
					t.Errorf("the call was let go on for %s", time.Since(began))
				}
				if gone := conn.GetState() == connectivity.Shutdown; gone != c.gone {
					t.Errorf("the connection is gone: %t", gone)
				}
				_, err := conn.NewStream(context.WithoutCancel(ctx), &grpc.StreamDesc{}, "/test/Talk")
				if gone := err != nil; gone != c.gone {
					t.Errorf("another call: %v", err)
				}
				_ = conn.Close() // and with it the other call
			})
		})
	}
}

// A handler that has answered is heard, whatever ends at the same moment.
func TestStopLetsCallsEnd(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		server := serve(nil, func(context.Context, []byte) ([]byte, error) {
			time.Sleep(time.Second)
			return []byte("done"), nil
		})
		conn := server.Connect(plain{})
		stopped := make(chan struct{})
		go func() {
			defer close(stopped)
			time.Sleep(time.Millisecond)
			server.Stop(time.Minute)
		}()
		began := time.Now()
		var request, response []byte
		if err := conn.Invoke(t.Context(), "/test/Ask", &request, &response); err != nil || string(response) != "done" {
			t.Errorf("%q, %v", response, err)
		}
		<-stopped
		if took := time.Since(began); took != time.Second {
			t.Errorf("Stop took %s", took)
		}
	})
}
