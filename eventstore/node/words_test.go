package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	pb "github.com/EventStore/EventStore-Client-Go/v4/protos/persistent"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/serverfeatures"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node"
)

// Clients learn that persistent subscriptions are missing, whether they ask first or not.
func TestPersistentSubscriptionsAreRefused(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	groups := pb.NewPersistentSubscriptionsClient(rawConnection(t, s))
	read, err := groups.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, readErr := read.Recv()
	_, createErr := groups.Create(t.Context(), &pb.CreateReq{})
	_, listErr := groups.List(t.Context(), &pb.ListReq{})
	for name, err := range map[string]error{"read": readErr, "create": createErr, "list": listErr} {
		if status.Code(err) != codes.Unimplemented ||
			!strings.Contains(err.Error(), "persistent subscriptions are not supported") {
			t.Errorf("%s: %v", name, err)
		}
	}
	client := s.client(t)
	err = client.CreatePersistentSubscription(t.Context(), "s", "g", esdb.PersistentStreamSubscriptionOptions{})
	if err == nil || !strings.Contains(err.Error(), "not supported") {
		t.Errorf("the official client: %v", err)
	}
	err = client.CreatePersistentSubscriptionToAll(t.Context(), "g", esdb.PersistentAllSubscriptionOptions{})
	if code(err) != esdb.ErrorCodeUnsupportedFeature {
		t.Errorf("the official client, on $all: %v", err)
	}
}

func TestFeaturesThatClientsLookFor(t *testing.T) {
	t.Parallel()
	said, err := serverfeatures.NewServerFeaturesClient(rawConnection(t, serve(t, node.Config{}))).
		GetSupportedMethods(t.Context(), &shared.Empty{})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"event_store.client.streams.streams/read":        "position events",
		"event_store.client.streams.streams/batchappend": "deadline_duration",
	}
	for _, method := range said.GetMethods() {
		if strings.Contains(method.GetServiceName(), "persistent") {
			t.Errorf("offers %s", method)
		}
		name := method.GetServiceName() + "/" + method.GetMethodName()
		if features, ok := want[name]; ok && features == strings.Join(method.GetFeatures(), " ") {
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing or different: %v", slices.Collect(maps.Keys(want)))
	}
}

// Clients before 20.6 know -1 as the highest number; all get the name of the missing stream.
func TestOlderClientsRead(t *testing.T) {
	t.Parallel()
	client := streams.NewStreamsClient(rawConnection(t, serve(t, node.Config{})))
	write := func(metadata map[string]string, trailers *metadata.MD) (*streams.AppendResp, error) {
		call, err := client.Append(t.Context(), grpc.Trailer(trailers))
		if err != nil {
			t.Fatal(err)
		}
		for _, message := range []*streams.AppendReq{
			{Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{
				StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte("s")},
				ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
			}}},
			{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: &streams.AppendReq_ProposedMessage{
				Id: batchID(int64(len(*trailers) + 7)), Metadata: metadata,
			}}},
		} {
			if err := call.Send(message); err != nil {
				t.Fatal(err)
			}
		}
		return call.CloseAndRecv()
	}
	var trailers metadata.MD
	if _, err := write(map[string]string{"type": "t"}, &trailers); status.Code(err) != codes.InvalidArgument ||
		first(trailers, "required-metadata-properties") != "type,content-type" {
		t.Errorf("%v, trailers %v", err, trailers)
	}
	complete := map[string]string{"type": "t", "content-type": "application/json"}
	if _, err := write(complete, &metadata.MD{}); err != nil {
		t.Fatal(err)
	}
	again, err := write(complete, &metadata.MD{"another": nil})
	if detail := again.GetWrongExpectedVersion(); err != nil || detail.GetExpectedRevision_20_6_0() != 1<<64-1 {
		t.Errorf("%v, %v", again, err)
	}
}
