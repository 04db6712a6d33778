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
	"google.golang.org/grpc/status"

	"carillon/eventstore/node/internal/quirks"
)

// protocolVersion is the version of the protocol that clients take their bearings from. Its parts must be numbers.
const protocolVersion = "24.10.0"

func (n *Node) register(server grpc.ServiceRegistrar) {
	streams.RegisterStreamsServer(server, streamsService{Node: n})
	serverfeatures.RegisterServerFeaturesServer(server, features{quirks: n.config.Quirks})
	gossip.RegisterGossipServer(server, gossiper{node: n})
	server.RegisterService(persistentSubscriptions(), n)
}

// streamsService is the service by which events are written and read.
type streamsService struct {
	streams.UnimplementedStreamsServer
	*Node
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
		desc.Streams = append(desc.Streams, grpc.StreamDesc{
			StreamName:    method.MethodName,
			Handler:       refuse,
			ClientStreams: true,
		})
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
	add(gossip.Gossip_ServiceDesc.ServiceName, []string{"read"})
	add(serverfeatures.ServerFeatures_ServiceDesc.ServiceName, []string{"getsupportedmethods"})
	return methods, nil
}
