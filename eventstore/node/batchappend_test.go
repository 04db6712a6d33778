package node_test

import (
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore/node"
)

func batchID(n int64) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{MostSignificantBits: n}}}
}

func batchEvents(n, size int) (list []*streams.BatchAppendReq_ProposedMessage) {
	for range n {
		list = append(list, &streams.BatchAppendReq_ProposedMessage{
			Id:       &shared.UUID{Value: &shared.UUID_String_{String_: uuid.NewString()}},
			Metadata: map[string]string{"type": "batched", "content-type": "application/json"},
			Data:     make([]byte, size),
		})
	}
	return list
}

func noStream(stream string) *streams.BatchAppendReq_Options {
	return &streams.BatchAppendReq_Options{
		StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte(stream)},
		ExpectedStreamPosition: &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}},
		DeadlineOption:         &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(patience)},
	}
}

func TestBatchAppend(t *testing.T) {
	t.Parallel()
	s := serve(t, node.Config{})
	call, err := streams.NewStreamsClient(rawConnection(t, s)).BatchAppend(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for _, message := range []*streams.BatchAppendReq{
		{CorrelationId: batchID(1), Options: noStream("a"), ProposedMessages: batchEvents(2, 10)}, // goes on below
		{
			CorrelationId:    batchID(2),
			Options:          noStream("b"),
			ProposedMessages: batchEvents(1, 10),
			IsFinal:          true,
		},
		{CorrelationId: batchID(1), ProposedMessages: batchEvents(3, 10), IsFinal: true},
		{
			CorrelationId:    batchID(3),
			Options:          noStream("b"),
			ProposedMessages: batchEvents(1, 10),
			IsFinal:          true,
		},
		{
			CorrelationId:    batchID(4),
			Options:          noStream("c"),
			ProposedMessages: batchEvents(3, 512<<10),
			IsFinal:          true,
		},
		{
			CorrelationId:    batchID(5),
			Options:          noStream("$all"),
			ProposedMessages: batchEvents(1, 10),
			IsFinal:          true,
		},
	} {
		if err := call.Send(message); err != nil {
			t.Fatal(err)
		}
	}
	if err := call.CloseSend(); err != nil {
		t.Fatal(err)
	}
	responses := map[int64]*streams.BatchAppendResp{}
	for range 5 {
		response, err := call.Recv()
		if err != nil {
			t.Fatal(err)
		}
		responses[response.GetCorrelationId().GetStructured().GetMostSignificantBits()] = response
	}
	if success := responses[1].GetSuccess(); success.GetCurrentRevision() != 4 ||
		success.GetPosition().GetCommitPosition() == 0 {
		t.Errorf("in two messages: %v", responses[1])
	}
	if string(responses[2].GetStreamIdentifier().GetStreamName()) != "b" || responses[2].GetSuccess() == nil {
		t.Errorf("in one message: %v", responses[2])
	}
	for id, want := range map[int64]struct {
		code   codes.Code
		detail string
	}{
		3: {codes.AlreadyExists, "type.googleapis.com/event_store.client.WrongExpectedVersion"},
		4: {codes.InvalidArgument, "type.googleapis.com/event_store.client.MaximumAppendSizeExceeded"},
		5: {codes.PermissionDenied, "type.googleapis.com/event_store.client.AccessDenied"},
	} {
		failed := responses[id].GetError()
		if codes.Code(failed.GetCode()) != want.code || len(failed.GetDetails()) != 1 ||
			failed.GetDetails()[0].GetTypeUrl() != want.detail {
			t.Errorf("append %d: %v", id, responses[id])
		}
	}
}
