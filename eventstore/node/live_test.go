package node_test

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
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
	call := must.Get(streams.NewStreamsClient(rawConnection(t, s)).Read(ctx, subscription(stream)))(t)
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
				must.True(t, err == nil, "after %s: %v", steps, err)
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
				must.True(t, len(steps) <= 100, "%v", steps)
			}
			assert.Equal(t, count, c.burst, "events")
		})
	}
}

// Of two streams with one id, one is forgotten.
func TestStrictRemembersOneStreamOfAnID(t *testing.T) {
	t.Parallel()
	client, a := serve(t, node.Config{Quirks: &stricttest.Strict{}}).client(t), event("tested", "{}")
	for _, stream := range []string{"s", "t", "s"} {
		appendTo(t, client, stream, esdb.Any{}, a)
	}
	total := 0
	for _, stream := range []string{"s", "t"} {
		list := must.Get(readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10))(t)
		total += len(list)
	}
	assert.Equal(t, total, 3, "events")
}

func TestSubscribersThatDoNotReadHoldNobodyUp(t *testing.T) { //nolint:paralleltest // it measures the heap
	s := serve(t, node.Config{})
	slow, client := s.client(t), s.client(t)
	const stalled, written, size = 20, 300, 200 << 10
	for range stalled {
		subscribeAll(t, slow, esdb.SubscribeToAllOptions{From: esdb.Start{}}) // and never calls Recv
	}
	before := heap()
	data := strings.Repeat("x", size)
	for i := range written {
		appendTo(t, client, fmt.Sprintf("s-%d", i), esdb.NoStream{}, event("big", data))
	}
	// 60 MB went by; twenty stalled connections may hold only windows and pages.
	grown := heap() - before
	assert.True(t, grown <= 120<<20, "the heap grew by %d MB", grown>>20)
	list := readAll(t, client, esdb.ReadAllOptions{From: esdb.End{}, Direction: esdb.Backwards}, 1)
	assert.True(t, len(list) == 1 && list[0].Event.StreamID == fmt.Sprintf("s-%d", written-1), "last event %+v", list)
}

// Reads that take several pages give each event once, in either direction.
func TestReadsOfSeveralPages(t *testing.T) {
	t.Parallel()
	client := start(t)
	var written []uuid.UUID
	for range 3 {
		list := events(300)
		appendTo(t, client, "s", esdb.Any{}, list...)
		for _, e := range list {
			written = append(written, e.EventID)
		}
	}
	for _, options := range []esdb.ReadAllOptions{
		{From: esdb.Start{}, Direction: esdb.Forwards}, {From: esdb.End{}, Direction: esdb.Backwards},
	} {
		var read []uuid.UUID
		for _, e := range readAll(t, client, options, 5000) {
			read = append(read, e.Event.EventID)
		}
		assert.Slices(t, read, written, "read")
		slices.Reverse(written)
	}
}

func heap() int64 {
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return int64(stats.HeapAlloc)
}

// A node that is opened for reading serves what there is, refuses all else, and leaves the directory alone.
func TestReadOnly(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	assert.True(t, assert.Err(node.Open(node.Config{Dir: dir + "/none", ReadOnly: true})) != nil,
		"opened what isn't there")
	s := serve(t, node.Config{Dir: dir})
	client := s.client(t)
	appendTo(t, client, "s", esdb.NoStream{}, events(3)...)
	s.stop(t)
	s = serve(t, node.Config{Dir: dir, ReadOnly: true})
	client = s.client(t)
	assert.Equal(t, len(must.Get(readStream(client, "s", esdb.ReadStreamOptions{From: esdb.Start{}}, 10))(t)), 3, "events")
	subscription := subscribeAll(t, client, esdb.SubscribeToAllOptions{From: esdb.Start{}})
	for seen := 0; seen < 3; {
		switch message := subscription.Recv(); {
		case message.SubscriptionDropped != nil:
			t.Fatal(message.SubscriptionDropped.Error)
		case message.EventAppeared != nil:
			seen++
		}
	}
	for name, try := range map[string]func() error{
		"append": func() error {
			_, err := client.AppendToStream(t.Context(), "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.Any{}},
				events(1)...)
			return err
		},
		"delete": func() error {
			_, err := client.DeleteStream(t.Context(), "s", esdb.DeleteStreamOptions{ExpectedRevision: esdb.Any{}})
			return err
		},
	} {
		if err := try(); err == nil || !strings.Contains(err.Error(), "read-only") &&
			code(err) != esdb.ErrorCodeAccessDenied {
			t.Errorf("%s: %v", name, err)
		}
	}
	s.stop(t)
	client = serve(t, node.Config{Dir: dir}).client(t)
	appendTo(t, client, "s", esdb.Revision(2), events(1)...)
}

func subscribeAll(tb testing.TB, client *esdb.Client, options esdb.SubscribeToAllOptions) *esdb.Subscription {
	tb.Helper()
	subscription := must.Get(client.SubscribeToAll(context.Background(), options))(tb)
	tb.Cleanup(func() { _ = subscription.Close() })
	return subscription
}
