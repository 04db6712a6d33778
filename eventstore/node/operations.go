package node

import (
	"context"
	"errors"
	"sync"

	"github.com/google/uuid"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"

	"carillon/eventstore/node/internal/wire"
)

// operations runs what the Operations service begins: a scavenge, one at a time.
type operations struct {
	mu      sync.Mutex
	id      string // of the scavenge that runs; "" where none does
	cancel  context.CancelFunc
	running sync.WaitGroup
	closed  bool
}

const (
	operationsService         = "event_store.client.operations.Operations"
	methodStart               = "StartScavenge"
	methodStop                = "StopScavenge"
	exceptionScavengeNotFound = "scavenge-not-found"
	trailerScavenge           = "scavenge-id"
)

// operationsDescription describes the service by hand: the client's package has no code for it.
func operationsDescription(n *Node) *grpc.ServiceDesc {
	method := func(name string, handle func(context.Context, []byte) ([]byte, error)) grpc.MethodDesc {
		info := &grpc.UnaryServerInfo{FullMethod: "/" + operationsService + "/" + name}
		return grpc.MethodDesc{MethodName: name, Handler: func(
			_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor,
		) (any, error) {
			var raw wire.Raw
			if err := decode(&raw); err != nil {
				return nil, err
			}
			defer raw.Free()
			return intercept(ctx, &raw, info, func(ctx context.Context, _ any) (any, error) {
				response, err := handle(ctx, raw.Bytes())
				if err != nil {
					return nil, answer(ctx, "", err)
				}
				return &wire.Encoded{Buffer: mem.SliceBuffer(response)}, nil
			})
		}}
	}
	return &grpc.ServiceDesc{
		ServiceName: operationsService, HandlerType: (*any)(nil), Metadata: "operations.proto",
		Methods: []grpc.MethodDesc{method(methodStart, n.startScavenge), method(methodStop, n.stopScavenge)},
	}
}

// startScavenge begins a scavenge in the background. Where one runs, it says so.
func (n *Node) startScavenge(call context.Context, message []byte) ([]byte, error) {
	threads, chunk, err := wire.ParseStartScavenge(message)
	switch {
	case err != nil:
		return nil, err
	case threads < 1 || chunk < 0:
		return nil, invalid("a scavenge has at least one thread, and begins at chunk 0 or later")
	case n.config.ReadOnly:
		return nil, errReadOnly
	}
	o := &n.operations
	o.mu.Lock()
	defer o.mu.Unlock()
	switch {
	case o.closed:
		return nil, errClosing
	case o.id != "":
		return wire.AppendScavenge(nil, o.id, wire.ScavengeInProgress), nil
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(call))
	id := uuid.NewString()
	o.id, o.cancel = id, cancel
	o.running.Go(func() {
		defer cancel()
		n.log.Info("scavenge begins", "scavenge", id)
		removed, err := n.Scavenge(ctx, nil)
		switch {
		case errors.Is(err, context.Canceled):
			n.log.Info("scavenge stopped", "scavenge", id, "events", removed.Events, "bytes", removed.Bytes)
		case err != nil:
			n.log.Error("scavenge failed", "scavenge", id, "error", err)
		default:
			n.log.Info("scavenge is done", "scavenge", id, "events", removed.Events, "bytes", removed.Bytes)
		}
		o.mu.Lock()
		defer o.mu.Unlock()
		o.id = ""
	})
	return wire.AppendScavenge(nil, id, wire.ScavengeStarted), nil
}

func (n *Node) stopScavenge(_ context.Context, message []byte) ([]byte, error) {
	id, err := wire.ParseStopScavenge(message)
	if err != nil {
		return nil, err
	}
	o := &n.operations
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.id == "" || o.id != id {
		return nil, failure(codes.NotFound, "no scavenge "+id+" is running",
			trailerException, exceptionScavengeNotFound, trailerScavenge, id)
	}
	o.cancel()
	return wire.AppendScavenge(nil, id, wire.ScavengeStopped), nil
}

// close stops what runs, and waits for it.
func (o *operations) close() {
	o.mu.Lock()
	o.closed = true
	if o.id != "" {
		o.cancel()
	}
	o.mu.Unlock()
	o.running.Wait()
}
