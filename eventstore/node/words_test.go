package node_test

import (
	"maps"
	"slices"
	"strings"
	"testing"

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

func groupOn(stream string, settings *pb.CreateReq_Settings) *pb.CreateReq {
	return &pb.CreateReq{Options: &pb.CreateReq_Options{
		GroupName: "g", Settings: settings,
		StreamOption: &pb.CreateReq_Options_Stream{Stream: &pb.CreateReq_StreamOptions{
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)},
			RevisionOption:   &pb.CreateReq_StreamOptions_Start{Start: &shared.Empty{}},
		}},
	}}
}

func plainSettings() *pb.CreateReq_Settings {
	return &pb.CreateReq_Settings{
		HistoryBufferSize: 500, ReadBatchSize: 20, LiveBufferSize: 500, MaxCheckpointCount: 10, ConsumerStrategy: "RoundRobin",
		MessageTimeout:  &pb.CreateReq_Settings_MessageTimeoutMs{MessageTimeoutMs: 30_000},
		CheckpointAfter: &pb.CreateReq_Settings_CheckpointAfterMs{CheckpointAfterMs: 2_000},
	}
}

// The words and trailers by which clients tell errors of persistent subscriptions apart.
func TestErrorsOfGroups(t *testing.T) {
	t.Parallel()
	groups := pb.NewPersistentSubscriptionsClient(rawConnection(t, serve(t, node.Config{})))
	if _, err := groups.Create(t.Context(), groupOn("s", plainSettings())); err != nil {
		t.Fatal(err)
	}
	bad := plainSettings()
	bad.ReadBatchSize = bad.GetHistoryBufferSize()
	beyond := groupOn("", plainSettings())
	beyond.Options.StreamOption = &pb.CreateReq_Options_All{All: &pb.CreateReq_AllOptions{
		AllOption:    &pb.CreateReq_AllOptions_Position{Position: &pb.CreateReq_Position{CommitPosition: 1 << 40, PreparePosition: 1 << 40}},
		FilterOption: &pb.CreateReq_AllOptions_NoFilter{NoFilter: &shared.Empty{}},
	}}
	for name, c := range map[string]struct {
		call      func(...grpc.CallOption) error
		code      codes.Code
		message   string
		exception string
		reason    string
	}{
		"twice": {
			call: func(o ...grpc.CallOption) error {
				_, err := groups.Create(t.Context(), groupOn("s", plainSettings()), o...)
				return err
			},
			code: codes.AlreadyExists, message: "Subscription group g on stream s exists.", exception: "persistent-subscription-exists",
		},
		"missing": {
			call: func(o ...grpc.CallOption) error {
				_, err := groups.Delete(t.Context(), &pb.DeleteReq{Options: &pb.DeleteReq_Options{
					GroupName: "g", StreamOption: &pb.DeleteReq_Options_StreamIdentifier{
						StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte("t")},
					},
				}}, o...)
				return err
			},
			code: codes.NotFound, message: "Subscription group g on stream t does not exist.",
			exception: "persistent-subscription-does-not-exist",
		},
		"bad settings": {
			call: func(o ...grpc.CallOption) error {
				_, err := groups.Create(t.Context(), groupOn("u", bad), o...)
				return err
			},
			code: codes.Internal, message: "buffer size", exception: "persistent-subscription-failed", reason: "buffer size",
		},
		"beyond the end": {
			call: func(o ...grpc.CallOption) error {
				_, err := groups.Create(t.Context(), beyond, o...)
				return err
			},
			code: codes.Internal, message: "beyond the end", exception: "persistent-subscription-failed", reason: "beyond the end",
		},
	} {
		var trailers metadata.MD
		err := c.call(grpc.Trailer(&trailers))
		if status.Code(err) != c.code || !strings.Contains(status.Convert(err).Message(), c.message) ||
			first(trailers, "exception") != c.exception || first(trailers, "group-name") != "g" ||
			!strings.Contains(first(trailers, "reason"), c.reason) {
			t.Errorf("%s: %v, trailers %v", name, err, trailers)
		}
	}
}

// A consumer whose group is gone hears CANCELLED, which clients take for the end, and not for something to be retried.
func TestAConsumerOfADeletedGroupIsCancelled(t *testing.T) {
	t.Parallel()
	groups := pb.NewPersistentSubscriptionsClient(rawConnection(t, serve(t, node.Config{})))
	if _, err := groups.Create(t.Context(), groupOn("s", plainSettings())); err != nil {
		t.Fatal(err)
	}
	call, err := groups.Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	s := &shared.StreamIdentifier{StreamName: []byte("s")}
	if err := call.Send(&pb.ReadReq{Content: &pb.ReadReq_Options_{Options: &pb.ReadReq_Options{
		StreamOption: &pb.ReadReq_Options_StreamIdentifier{StreamIdentifier: s}, GroupName: "g", BufferSize: 10,
	}}}); err != nil {
		t.Fatal(err)
	}
	if _, err := call.Recv(); err != nil { // the confirmation
		t.Fatal(err)
	}
	if _, err := groups.Delete(t.Context(), &pb.DeleteReq{Options: &pb.DeleteReq_Options{
		StreamOption: &pb.DeleteReq_Options_StreamIdentifier{StreamIdentifier: s}, GroupName: "g",
	}}); err != nil {
		t.Fatal(err)
	}
	if _, err := call.Recv(); status.Code(err) != codes.Canceled || first(call.Trailer(), "exception") != "persistent-subscription-dropped" {
		t.Errorf("%v, trailers %v", err, call.Trailer())
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
		"event_store.client.streams.streams/read":                                              "position events",
		"event_store.client.streams.streams/batchappend":                                       "deadline_duration",
		"event_store.client.persistent_subscriptions.persistentsubscriptions/restartsubsystem": "stream all",
		"event_store.client.persistent_subscriptions.persistentsubscriptions/create":           "stream all",
	}
	for _, method := range said.GetMethods() {
		name := method.GetServiceName() + "/" + method.GetMethodName()
		if features, ok := want[name]; ok && features == strings.Join(method.GetFeatures(), " ") {
			delete(want, name)
		}
	}
	if len(want) > 0 {
		t.Errorf("missing or different: %v", slices.Collect(maps.Keys(want)))
	}
}

// Clients before 20.6 know -1 as the highest number; all are told what was missing by name.
func TestWhatOlderClientsRead(t *testing.T) {
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
