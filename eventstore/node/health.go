package node

import (
	"context"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/gossip"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	health "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"
)

// healthService tells probes that speak gRPC whether the node works.
type healthService struct {
	health.UnimplementedHealthServer
	node *Node
}

// knows are the services that can be asked about; "" is the node.
var knows = map[string]bool{
	"": true, streams.Streams_ServiceDesc.ServiceName: true, gossip.Gossip_ServiceDesc.ServiceName: true,
}

func (s healthService) now() health.HealthCheckResponse_ServingStatus {
	if s.node.Err() != nil || s.node.closing() {
		return health.HealthCheckResponse_NOT_SERVING
	}
	return health.HealthCheckResponse_SERVING
}

// Check implements the service.
func (s healthService) Check(_ context.Context, request *health.HealthCheckRequest) (*health.HealthCheckResponse, error) {
	if !knows[request.GetService()] {
		return nil, status.Error(codes.NotFound, "unknown service")
	}
	return &health.HealthCheckResponse{Status: s.now()}, nil
}

// Watch implements the service. What it tells changes once: the node fails, or it closes.
func (s healthService) Watch(request *health.HealthCheckRequest, call grpc.ServerStreamingServer[health.HealthCheckResponse]) error {
	if !knows[request.GetService()] {
		return call.Send(&health.HealthCheckResponse{Status: health.HealthCheckResponse_SERVICE_UNKNOWN})
	}
	if err := call.Send(&health.HealthCheckResponse{Status: s.now()}); err != nil {
		return err
	}
	select {
	case <-s.node.Failed():
	case <-s.node.store.Closing():
	case <-call.Context().Done():
		return call.Context().Err()
	}
	return call.Send(&health.HealthCheckResponse{Status: health.HealthCheckResponse_NOT_SERVING})
}

func (n *Node) closing() bool {
	select {
	case <-n.store.Closing():
		return true
	default:
		return false
	}
}
