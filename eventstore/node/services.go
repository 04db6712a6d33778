package node

import (
	"context"
	"strings"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/persistent"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node/internal/quirks"
)

// protocolVersion is the version of the protocol that clients take their bearings from. Its parts must be numbers.
const protocolVersion = "24.10.0"

func (n *Node) register(server grpc.ServiceRegistrar) {
	server.RegisterService(streamsService(n), n)
	serverfeatures.RegisterServerFeaturesServer(server, features{quirks: n.config.Quirks})
	gossip.RegisterGossipServer(server, gossiper{node: n})
	server.RegisterService(persistentSubscriptions(), n)
	health.RegisterHealthServer(server, healthService{node: n})
	server.RegisterService(operationsDescription(n), n)
}

// streamsService describes the Streams service by hand: its streaming calls handle encoded messages, which the
// generated code has no room for.
func streamsService(n *Node) *grpc.ServiceDesc {
	handler := func(handle func(grpc.ServerStream) error) grpc.StreamHandler {
		return func(_ any, call grpc.ServerStream) error { return handle(call) }
	}
	return &grpc.ServiceDesc{
		ServiceName: streams.Streams_ServiceDesc.ServiceName,
		HandlerType: (*any)(nil),
		Metadata:    streams.Streams_ServiceDesc.Metadata,
		Methods: []grpc.MethodDesc{
			{MethodName: "Delete", Handler: unary("/Delete", n.deleteStream)},
			{MethodName: "Tombstone", Handler: unary("/Tombstone", n.tombstoneStream)},
		},
		Streams: []grpc.StreamDesc{
			{StreamName: "Read", Handler: handler(n.read), ServerStreams: true},
			{StreamName: "Append", Handler: handler(n.appendEvents), ClientStreams: true},
			{StreamName: "BatchAppend", Handler: handler(n.batchAppend), ServerStreams: true, ClientStreams: true},
		},
	}
}

// unary makes a method handler as the generated code would.
func unary[Request, Response any](
	method string, handle func(context.Context, *Request) (*Response, error),
) grpc.MethodHandler {
	info := &grpc.UnaryServerInfo{FullMethod: "/" + streams.Streams_ServiceDesc.ServiceName + method}
	return func(_ any, ctx context.Context, decode func(any) error, intercept grpc.UnaryServerInterceptor) (any, error) {
		request := new(Request)
		if err := decode(request); err != nil {
			return nil, err
		}
		if intercept == nil {
			return handle(ctx, request)
		}
		return intercept(ctx, request, info, func(ctx context.Context, _ any) (any, error) {
			return handle(ctx, request)
		})
	}
}

const noPersistentSubscriptions = "persistent subscriptions are not supported; read or subscribe, and keep the position"

// persistentSubscriptions describes a service whose calls are all answered with UNIMPLEMENTED.
func persistentSubscriptions() *grpc.ServiceDesc {
	refuse := func(any, grpc.ServerStream) error {
		return status.Error(codes.Unimplemented, noPersistentSubscriptions)
	}
	described := persistent.PersistentSubscriptions_ServiceDesc
	desc := &grpc.ServiceDesc{ServiceName: described.ServiceName, HandlerType: (*any)(nil), Metadata: described.Metadata}
	for _, method := range described.Methods {
		desc.Streams = append(desc.Streams, grpc.StreamDesc{StreamName: method.MethodName, Handler: refuse, ClientStreams: true})
	}
	for _, stream := range described.Streams {
		stream.Handler = refuse
		desc.Streams = append(desc.Streams, stream)
	}
	return desc
}

// features answers the call by which clients find out what a node can do.
type features struct {
	serverfeatures.UnimplementedServerFeaturesServer
	quirks quirks.Quirks
}

func (f features) GetSupportedMethods(context.Context, *shared.Empty) (*serverfeatures.SupportedMethods, error) {
	methods := &serverfeatures.SupportedMethods{EventStoreServerVersion: protocolVersion}
	add := func(service string, names []string, features ...string) {
		for _, name := range names {
			methods.Methods = append(methods.Methods, &serverfeatures.SupportedMethod{
				ServiceName: strings.ToLower(service), MethodName: name, Features: features,
			})
		}
	}
	add(streams.Streams_ServiceDesc.ServiceName, []string{"read"}, "position", "events")
	add(streams.Streams_ServiceDesc.ServiceName, []string{"append", "delete", "tombstone"})
	if _, offered := f.quirks.Batches(); offered {
		add(streams.Streams_ServiceDesc.ServiceName, []string{"batchappend"}, "deadline_duration")
	}
	add(operationsService, []string{strings.ToLower(methodStart), strings.ToLower(methodStop)})
	add(gossip.Gossip_ServiceDesc.ServiceName, []string{"read"})
	add(serverfeatures.ServerFeatures_ServiceDesc.ServiceName, []string{"getsupportedmethods"})
	return methods, nil
}
