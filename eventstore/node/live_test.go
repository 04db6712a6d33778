package node_test

import (
	"context"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

// progress is what CaughtUp and FellBehind say to newer clients, whose messages have these fields.
type progress struct {
	at       time.Time
	revision int64 // -1: not said
	position int64
}

func progressOf(t *testing.T, unknown []byte) progress {
	t.Helper()
	said := progress{revision: -1, position: -1}
	for len(unknown) > 0 {
		field, kind, n := protowire.ConsumeTag(unknown)
		unknown = unknown[n:]
		var content []byte
		var value uint64
		if kind == protowire.BytesType {
			content, n = protowire.ConsumeBytes(unknown)
		} else {
			value, n = protowire.ConsumeVarint(unknown)
		}
		unknown = unknown[n:]
		switch field {
		case 1:
			var stamp timestamppb.Timestamp
			if err := proto.Unmarshal(content, &stamp); err != nil {
				t.Fatal(err)
			}
			said.at = stamp.AsTime()
		case 2:
			said.revision = int64(value) //nolint:gosec // a few
		case 3:
			var position streams.ReadReq_Options_Position // of the same fields
			if err := proto.Unmarshal(content, &position); err != nil || position.GetCommitPosition() != position.GetPreparePosition() {
				t.Fatalf("%v, %v", &position, err)
			}
			said.position = int64(position.GetCommitPosition()) //nolint:gosec // far below
		}
	}
	return said
}

func watch(ctx context.Context, t *testing.T, s *server, stream string) streams.Streams_ReadClient {
	t.Helper()
	options := &streams.ReadReq_Options{
		CountOption:  &streams.ReadReq_Options_Subscription{Subscription: &streams.ReadReq_Options_SubscriptionOptions{}},
		FilterOption: &streams.ReadReq_Options_NoFilter{NoFilter: &shared.Empty{}},
		UuidOption:   &streams.ReadReq_Options_UUIDOption{Content: &streams.ReadReq_Options_UUIDOption_Structured{Structured: &shared.Empty{}}},
		StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{
			AllOption: &streams.ReadReq_Options_AllOptions_Start{Start: &shared.Empty{}},
		}},
	}
	if stream != "" {
		options.StreamOption = &streams.ReadReq_Options_Stream{Stream: &streams.ReadReq_Options_StreamOptions{
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)},
			RevisionOption:   &streams.ReadReq_Options_StreamOptions_Start{Start: &shared.Empty{}},
		}}
	}
	call, err := streams.NewStreamsClient(rawConnection(t, s)).Read(ctx, &streams.ReadReq{Options: options})
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// Whoever has caught up hears of it with the time and the place, and again after falling behind, as newer clients read
// it and older ones don't mind.
func TestCaughtUpAndFellBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		strict *stricttest.Strict
		burst  int
	}{
		"all": {"", nil, 700}, "a stream": {"s", nil, 700}, "all, as later servers do": {"", &stricttest.Strict{Later: true}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := serve(t, node.Config{Quirks: c.strict})
			client := s.client(t)
			call := watch(ctx, t, s, c.stream)
			var last *streams.ReadResp_ReadEvent_RecordedEvent
			check := func(what string, unknown []byte) {
				said := progressOf(t, unknown)
				revision, position := int64(-1), int64(-1)
				switch {
				case last == nil:
				case c.stream != "":
					revision = int64(last.GetStreamRevision()) //nolint:gosec // a few
				default:
					position = int64(last.GetCommitPosition()) //nolint:gosec // far below
				}
				if time.Since(said.at) > time.Hour || said.revision != revision || said.position != position {
					t.Errorf("%s says %+v, want revision %d, position %d", what, said, revision, position)
				}
			}
			want := "live behind live "
			if c.strict != nil {
				want = "live live " // later servers send no fell-behind
			}
			steps, count := "", 0
			for steps != want {
				response, err := call.Recv()
				if err != nil {
					t.Fatalf("after %s: %v", steps, err)
				}
				switch content := response.GetContent().(type) {
				case *streams.ReadResp_Event:
					last = content.Event.GetEvent()
					count++
				case *streams.ReadResp_FellBehind_:
					check("fell behind", content.FellBehind.ProtoReflect().GetUnknown())
					steps += "behind "
				case *streams.ReadResp_CaughtUp_:
					check("caught up", content.CaughtUp.ProtoReflect().GetUnknown())
					if steps += "live "; steps == "live " {
						appendTo(t, client, "s", esdb.NoStream{}, events(c.burst)...)
					}
				}
				if len(steps) > 100 {
					t.Fatal(steps)
				}
			}
			if count != c.burst {
				t.Errorf("%d events", count)
			}
		})
	}
}
