package node_test

import (
	"context"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/esdb"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"carillon/eventstore/node"
	"carillon/eventstore/node/stricttest"
)

// versions are the servers that a strict node is like.
var versions = map[string]func() *stricttest.Strict{
	"23.10": func() *stricttest.Strict { return &stricttest.Strict{} },
	"25.0":  func() *stricttest.Strict { return &stricttest.Strict{Later: true} },
}

// eachVersion runs a test on a strict node of each version.
func eachVersion(t *testing.T, test func(ctx context.Context, t *testing.T, s *server, later bool)) {
	t.Helper()
	t.Parallel()
	for name, strict := range versions {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			c := strict()
			test(ctx, t, serve(t, node.Config{Quirks: c}), c.Later)
		})
	}
}

// fromPosition is a read of $all from a position; count 0 makes it a subscription.
func fromPosition(position, count uint64) *streams.ReadReq {
	options := &streams.ReadReq_Options{
		StreamOption: &streams.ReadReq_Options_All{All: &streams.ReadReq_Options_AllOptions{
			AllOption: &streams.ReadReq_Options_AllOptions_Position{
				Position: &streams.ReadReq_Options_Position{CommitPosition: position, PreparePosition: position},
			},
		}},
		CountOption:  &streams.ReadReq_Options_Subscription{Subscription: &streams.ReadReq_Options_SubscriptionOptions{}},
		FilterOption: &streams.ReadReq_Options_NoFilter{NoFilter: &shared.Empty{}},
		UuidOption: &streams.ReadReq_Options_UUIDOption{
			Content: &streams.ReadReq_Options_UUIDOption_Structured{Structured: &shared.Empty{}},
		},
	}
	if count > 0 {
		options.CountOption = &streams.ReadReq_Options_Count{Count: count}
	}
	return &streams.ReadReq{Options: options}
}

// ask begins a read and returns its calls' answers one by one.
func ask(ctx context.Context, t *testing.T, s *server, request *streams.ReadReq) func() (*streams.ReadResp, error) {
	t.Helper()
	call, err := streams.NewStreamsClient(rawConnection(t, s)).Read(ctx, request)
	if err != nil {
		t.Fatal(err)
	}
	return call.Recv
}

// want receives an answer of a kind, and returns it.
func want[T any](t *testing.T, receive func() (*streams.ReadResp, error)) (content T) {
	t.Helper()
	response, err := receive()
	if err != nil {
		t.Fatalf("%v, want %T", err, content)
	}
	content, ok := any(response.GetContent()).(T)
	if !ok {
		t.Fatalf("received %T, want %T", response.GetContent(), content)
	}
	return content
}

type (
	confirmation = *streams.ReadResp_Confirmation
	caughtUp     = *streams.ReadResp_CaughtUp_
	anEvent      = *streams.ReadResp_Event
)

func TestStrictRefusesInvalidPositions(t *testing.T) {
	eachVersion(t, func(ctx context.Context, t *testing.T, s *server, later bool) {
		client := s.client(t)
		between := appendTo(t, client, "s", esdb.NoStream{}, events(1)...).CommitPosition + 1
		appendTo(t, client, "s", esdb.Revision(0), events(1)...)
		for range 2 { // trying again does not help
			if _, err := ask(ctx, t, s, fromPosition(between, 1))(); status.Code(err) != codes.Unknown {
				t.Errorf("read: %v", err)
			}
			receive, code := ask(ctx, t, s, fromPosition(between, 0)), codes.Unknown
			if later {
				want[confirmation](t, receive)
				code = codes.InvalidArgument
			}
			if _, err := receive(); status.Code(err) != code {
				t.Errorf("subscribe: %v, want %s", err, code)
			}
		}
	})
}

func TestStrictDeliversBeyondTheEnd(t *testing.T) {
	eachVersion(t, func(ctx context.Context, t *testing.T, s *server, later bool) {
		client := s.client(t)
		beyond := appendTo(t, client, "s", esdb.NoStream{}, events(1)...).CommitPosition + 1000
		receive := ask(ctx, t, s, fromPosition(beyond, 0))
		want[confirmation](t, receive)
		want[caughtUp](t, receive)
		first := uint64(1)
		for revision, position := uint64(0), uint64(0); position <= beyond; revision++ {
			if position = appendTo(t, client, "s", esdb.Revision(revision), events(1)...).CommitPosition; later &&
				position <= beyond {
				first++
			}
		}
		if got := want[anEvent](t, receive).Event.GetEvent().GetStreamRevision(); got != first {
			t.Errorf("revision %d came first, want %d", got, first)
		}
	})
}

func TestStrictCatchesUpAfterFirstEvent(t *testing.T) {
	eachVersion(t, func(ctx context.Context, t *testing.T, s *server, _ bool) {
		request := fromPosition(0, 0)
		request.Options.StreamOption = &streams.ReadReq_Options_Stream{Stream: &streams.ReadReq_Options_StreamOptions{
			StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte("s")},
			RevisionOption:   &streams.ReadReq_Options_StreamOptions_Start{Start: &shared.Empty{}},
		}}
		receive := ask(ctx, t, s, request)
		want[confirmation](t, receive)
		appendTo(t, s.client(t), "s", esdb.NoStream{}, events(1)...)
		want[anEvent](t, receive)
		want[caughtUp](t, receive)
	})
}

func TestStrictRemembersOneStreamOfAnID(t *testing.T) {
	eachVersion(t, func(_ context.Context, t *testing.T, s *server, _ bool) {
		client, a := s.client(t), event("tested", "{}")
		for _, stream := range []string{"s", "t", "s"} {
			appendTo(t, client, stream, esdb.Any{}, a)
		}
		total := 0
		for _, stream := range []string{"s", "t"} {
			list, err := readStream(client, stream, esdb.ReadStreamOptions{From: esdb.Start{}}, 10)
			if err != nil {
				t.Fatal(err)
			}
			total += len(list)
		}
		if total != 3 {
			t.Errorf("%d events, want 3: one of the two streams is forgotten", total)
		}
	})
}

// TestStrictLeavesRepetitionsUnanswered: of one append, sent again before it is replicated, one is answered.
func TestStrictLeavesRepetitionsUnanswered(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	strict := &stricttest.Strict{}
	s := serve(t, node.Config{Quirks: strict})
	client, list := s.client(t), events(1)
	strict.StopReplication()
	answers := make(chan error, 2)
	send := func(ctx context.Context) {
		_, err := client.AppendToStream(ctx, "s", esdb.AppendToStreamOptions{ExpectedRevision: esdb.NoStream{}}, list...)
		answers <- err
	}
	until := func(waiting int, repeated int64) {
		for {
			if w, r := strict.Held(); w == waiting && r == repeated {
				return
			}
			if ctx.Err() != nil {
				t.Fatal(ctx.Err())
			}
		}
	}
	go send(ctx)
	until(1, 0)
	repetition, giveUp := context.WithCancel(ctx)
	go send(repetition)
	until(1, 1)
	strict.Replicate()
	if err := <-answers; err != nil {
		t.Errorf("the first: %v", err)
	}
	giveUp()
	if err := <-answers; err == nil {
		t.Error("the second was answered")
	}
}
