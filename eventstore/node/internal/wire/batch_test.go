package wire

import (
	"bytes"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"
	"google.golang.org/protobuf/types/known/timestamppb"

	"carillon/eventstore/node/internal/store"
)

func batches() map[string]*streams.BatchAppendReq {
	id := &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{MostSignificantBits: -1, LeastSignificantBits: 7}}}
	name := &shared.StreamIdentifier{StreamName: []byte("s-1")}
	event := &streams.BatchAppendReq_ProposedMessage{
		Id: id, Metadata: map[string]string{"type": "t", "content-type": "application/json"}, Data: []byte("{}"), CustomMetadata: []byte("[]"),
	}
	return map[string]*streams.BatchAppendReq{
		"nothing": {},
		"whole": {CorrelationId: id, IsFinal: true, ProposedMessages: []*streams.BatchAppendReq_ProposedMessage{event, event},
			Options: &streams.BatchAppendReq_Options{
				StreamIdentifier: name, ExpectedStreamPosition: &streams.BatchAppendReq_Options_StreamPosition{StreamPosition: 9},
				DeadlineOption: &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(1500 * time.Millisecond)},
			}},
		"older": {CorrelationId: &shared.UUID{Value: &shared.UUID_String_{String_: "0d000000-0000-4000-8000-000000000001"}},
			Options: &streams.BatchAppendReq_Options{
				StreamIdentifier: name, ExpectedStreamPosition: &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}},
				DeadlineOption: &streams.BatchAppendReq_Options_Deadline_21_10_0{Deadline_21_10_0: timestamppb.New(time.Unix(1_700_000_000, 5))},
			}},
		"any":     {CorrelationId: id, Options: &streams.BatchAppendReq_Options{ExpectedStreamPosition: &streams.BatchAppendReq_Options_Any{Any: &emptypb.Empty{}}}},
		"exists":  {CorrelationId: id, Options: &streams.BatchAppendReq_Options{ExpectedStreamPosition: &streams.BatchAppendReq_Options_StreamExists{StreamExists: &emptypb.Empty{}}}},
		"a piece": {CorrelationId: id, ProposedMessages: []*streams.BatchAppendReq_ProposedMessage{event}},
		"negative": {Options: &streams.BatchAppendReq_Options{
			DeadlineOption: &streams.BatchAppendReq_Options_Deadline{Deadline: &durationpb.Duration{Seconds: -5}}}},
	}
}

func TestBatchesAreDecodedAsTheGeneratedCodeDoes(t *testing.T) {
	t.Parallel()
	for name, want := range batches() {
		encoded, err := proto.Marshal(want)
		if err != nil {
			t.Fatal(err)
		}
		sameBatch(t, name, encoded)
	}
}

func sameBatch(t *testing.T, name string, encoded []byte) {
	t.Helper()
	got, err := ParseBatchRequest(encoded)
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	want := &streams.BatchAppendReq{}
	if err := proto.Unmarshal(encoded, want); err != nil {
		t.Fatal(err)
	}
	id := &shared.UUID{}
	if err := proto.Unmarshal(got.ID, id); err != nil || want.GetCorrelationId() != nil && got.ID != nil && !sameUUID(id, want.GetCorrelationId()) {
		t.Errorf("%s: correlation id %v %v, want %v", name, id, err, want.GetCorrelationId())
	}
	if got.Final != want.GetIsFinal() || got.HasOptions != (want.GetOptions() != nil) {
		t.Errorf("%s: final %t, options %t of %v", name, got.Final, got.HasOptions, want)
	}
	events := 0
	if err := got.Events(func(event store.EventContent) error {
		if events < len(want.GetProposedMessages()) {
			message := want.GetProposedMessages()[events]
			if event.Type != message.GetMetadata()["type"] || !bytes.Equal(event.Data, message.GetData()) || !bytes.Equal(event.Metadata, message.GetCustomMetadata()) {
				t.Errorf("%s: event %d is %+v, want %v", name, events, event, message)
			}
		}
		events++
		return nil
	}); err == nil && events != len(want.GetProposedMessages()) {
		t.Errorf("%s: %d events, want %d", name, events, len(want.GetProposedMessages()))
	}
}

func sameUUID(a, b *shared.UUID) bool {
	return proto.Equal(a, b) || a.GetValue() == nil || b.GetValue() == nil
}

func TestDeadlinesOfBatches(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]struct {
		within time.Duration
		until  time.Time
	}{
		"whole": {within: 1500 * time.Millisecond}, "older": {until: time.Unix(1_700_000_000, 5)}, "any": {}, "negative": {},
	} {
		encoded, err := proto.Marshal(batches()[name])
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ParseBatchRequest(encoded); err != nil || got.Within != want.within || !got.Until.Equal(want.until) {
			t.Errorf("%s: %s, %s, %v", name, got.Within, got.Until, err)
		}
	}
}

func FuzzParseBatch(f *testing.F) {
	for _, message := range batches() {
		encoded, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(_ *testing.T, encoded []byte) {
		batch, err := ParseBatchRequest(encoded)
		if err != nil {
			return
		}
		if err := batch.Events(func(event store.EventContent) error { _ = store.Propose(event); return nil }); err != nil {
			return
		}
		_ = AppendBatchSuccess(nil, batch.ID, batch.Options, store.Result{})
	})
}

func TestAnswersToBatchesAreEncodedAsTheGeneratedCodeReadsThem(t *testing.T) {
	t.Parallel()
	for name, request := range batches() {
		id, err := proto.Marshal(request.GetCorrelationId())
		if err != nil {
			t.Fatal(err)
		}
		options, err := proto.Marshal(request.GetOptions())
		if err != nil {
			t.Fatal(err)
		}
		got := &streams.BatchAppendResp{}
		if err := proto.Unmarshal(AppendBatchSuccess(nil, id, options, store.Result{Revision: 4, Position: 1 << 40}), got); err != nil {
			t.Fatal(err)
		}
		if !sameUUID(got.GetCorrelationId(), request.GetCorrelationId()) || !proto.Equal(got.GetStreamIdentifier(), request.GetOptions().GetStreamIdentifier()) ||
			got.GetExpectedStreamPosition() != nil {
			t.Errorf("%s: %v is no answer to %v", name, got, request)
		}
		success := got.GetSuccess()
		if success.GetCurrentRevision() != 4 || success.GetPosition().GetCommitPosition() != 1<<40 || success.GetPosition().GetPreparePosition() != 1<<40 {
			t.Errorf("%s: %v", name, success)
		}
	}
}
