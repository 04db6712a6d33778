package node_test

import (
	"context"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

// subscription returns the request to subscribe to a stream, or to $all if that is empty.
func subscription(stream string) *streams.ReadReq {
	options := &streams.ReadReq_Options{
		CountOption:  &streams.ReadReq_Options_Subscription{Subscription: &streams.ReadReq_Options_SubscriptionOptions{}},
		FilterOption: &streams.ReadReq_Options_NoFilter{NoFilter: &shared.Empty{}},
		UuidOption: &streams.ReadReq_Options_UUIDOption{
			Content: &streams.ReadReq_Options_UUIDOption_Structured{Structured: &shared.Empty{}},
		},
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
	return &streams.ReadReq{Options: options}
}

func watch(ctx context.Context, t *testing.T, s *server, stream string) streams.Streams_ReadClient {
	t.Helper()
	call, err := streams.NewStreamsClient(rawConnection(t, s)).Read(ctx, subscription(stream))
	if err != nil {
		t.Fatal(err)
	}
	return call
}

// A subscriber is notified when it has caught up, and again after falling behind.
func TestCaughtUpAndFellBehind(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		stream string
		strict *stricttest.Strict
		burst  int
	}{
		"all": {"", nil, 700}, "a stream": {"s", nil, 700}, "all, as later servers do": {"",
			&stricttest.Strict{Later: true}, 40},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			s := serve(t, node.Config{Quirks: c.strict})
			client := s.client(t)
			call := watch(ctx, t, s, c.stream)
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
				switch response.GetContent().(type) {
				case *streams.ReadResp_Event:
					count++
				case *streams.ReadResp_FellBehind_:
					steps += "behind "
				case *streams.ReadResp_CaughtUp_:
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
