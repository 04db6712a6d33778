package node_test

import (
	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
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
