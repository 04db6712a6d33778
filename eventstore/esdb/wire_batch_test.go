package esdb

import (
	"errors"
	"testing"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/protoadapt"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore"
)

func TestBatchesAreEncodedAsTheGeneratedCodeDoes(t *testing.T) {
	t.Parallel()
	full := proposal{contentType: contentJSON, Proposed: eventstore.Proposed{
		ID: uuid.New(), Type: "item.added.v1", Data: []byte(`{"title":"звон"}`), Metadata: []byte(`{"actor":"a"}`),
	}}
	large := full
	large.Data = make([]byte, 300_000)
	for name, events := range map[string][]proposal{
		"one": {full}, "large": {large, full}, "none": nil, "empty": {{contentType: contentBytes, Proposed: eventstore.Proposed{Type: "x"}}},
	} {
		for _, expected := range []eventstore.Revision{eventstore.NoStream, 0, 1 << 40} {
			message, err := encodeBatch(1<<63, 5, "item-1", expected, 30*time.Second+5, events)
			if err != nil {
				t.Fatal(err)
			}
			got := &streams.BatchAppendReq{}
			if err := proto.Unmarshal(message.buffer.ReadOnlyData(), got); err != nil {
				t.Fatalf("%s at %d: %v", name, expected, err)
			}
			want := &streams.BatchAppendReq{
				CorrelationId: structured(-1<<63, 5), IsFinal: true,
				Options: &streams.BatchAppendReq_Options{
					StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte("item-1")},
					DeadlineOption:   &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(30*time.Second + 5)},
				},
			}
			if expected >= 0 {
				want.Options.ExpectedStreamPosition = &streams.BatchAppendReq_Options_StreamPosition{StreamPosition: uint64(expected)}
			} else {
				want.Options.ExpectedStreamPosition = &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}}
			}
			for _, e := range events {
				alone := e.message()
				want.ProposedMessages = append(want.ProposedMessages, &streams.BatchAppendReq_ProposedMessage{
					Id: alone.GetId(), Metadata: alone.GetMetadata(), Data: alone.GetData(), CustomMetadata: alone.GetCustomMetadata(),
				})
			}
			if !proto.Equal(got, want) {
				t.Errorf("%s at %d: %v, want %v", name, expected, got, want)
			}
		}
	}
	if _, err := encodeBatch(1, 1, "s", 0, time.Second, []proposal{{Proposed: eventstore.Proposed{Type: "\xff"}}}); err == nil {
		t.Error("a type that is no text is sent")
	}
}

// batchAnswers are answers as servers of all versions give them: what matters is the detail, not the code.
func batchAnswers(tb testing.TB) map[string]*streams.BatchAppendResp {
	tb.Helper()
	failed := func(code codes.Code, detail protoadapt.MessageV1) *streams.BatchAppendResp {
		described := status.New(code, "because")
		if detail != nil {
			var err error
			if described, err = described.WithDetails(detail); err != nil {
				tb.Fatal(err)
			}
		}
		return &streams.BatchAppendResp{CorrelationId: structured(-2, 9), Result: &streams.BatchAppendResp_Error{Error: described.Proto()}}
	}
	return map[string]*streams.BatchAppendResp{
		"success": {CorrelationId: structured(-2, 9), StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte("s")},
			ExpectedStreamPosition: &streams.BatchAppendResp_StreamPosition{StreamPosition: 3},
			Result: &streams.BatchAppendResp_Success_{Success: &streams.BatchAppendResp_Success{
				CurrentRevisionOption: &streams.BatchAppendResp_Success_CurrentRevision{CurrentRevision: 300},
				PositionOption: &streams.BatchAppendResp_Success_Position{
					Position: &shared.AllStreamPosition{CommitPosition: 1 << 40, PreparePosition: 1<<40 - 1}},
			}}},
		"text id": {CorrelationId: &shared.UUID{Value: &shared.UUID_String_{String_: "ffffffff-ffff-fffe-0000-000000000009"}},
			Result: &streams.BatchAppendResp_Success_{Success: &streams.BatchAppendResp_Success{}}},
		"wrong version":    failed(codes.AlreadyExists, &shared.WrongExpectedVersion{}),
		"deleted":          failed(codes.NotFound, &shared.StreamDeleted{}),
		"too large":        failed(codes.InvalidArgument, &shared.MaximumAppendSizeExceeded{MaxAppendSize: 1 << 20}),
		"access denied":    failed(codes.Unknown, &shared.AccessDenied{}),
		"timeout":          failed(codes.Unknown, &shared.Timeout{}),
		"bad":              failed(codes.Unknown, &shared.BadRequest{}),
		"unknown":          failed(codes.Unknown, &shared.Unknown{}),
		"without a reason": failed(codes.OK, nil),
	}
}

func TestAnswersToBatches(t *testing.T) {
	t.Parallel()
	wants := map[string]error{
		"success": nil, "text id": nil, "wrong version": errWrongVersion, "deleted": eventstore.ErrStreamDeleted, "too large": eventstore.ErrTooLarge,
		"access denied": eventstore.ErrRefused, "timeout": eventstore.ErrUnavailable, "bad": nil, "unknown": eventstore.ErrUnavailable,
		"without a reason": eventstore.ErrUnavailable,
	}
	for name, message := range batchAnswers(t) {
		encoded, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		got := decodedAnswer(t, encoded)
		if got.most != 1<<64-2 || got.id != 9 {
			t.Errorf("%s: id %d %d", name, got.most, got.id)
		}
		switch want := wants[name]; {
		case name == "success" && (got.err != nil || got.appended.Revision != 300 || got.appended.Position != eventstore.Position{Commit: 1 << 40, Prepare: 1<<40 - 1}):
			t.Errorf("%s: %+v", name, got)
		case name == "bad" && codeOf(got.err) != codes.InvalidArgument:
			t.Errorf("%s: %v", name, got.err)
		case want != nil && !errors.Is(got.err, want) && !errors.Is(translate(got.err), want):
			t.Errorf("%s: %v, want %v", name, got.err, want)
		}
	}
}

// decodedAnswer decodes an answer both ways, which must be the same.
func decodedAnswer(t *testing.T, encoded []byte) batchAnswer {
	t.Helper()
	got, byHand := batchAnswer{most: 1, id: 1, err: errNoText}, batchAnswer{most: 1, id: 1, err: errNoText}
	err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(encoded)}, &got)
	message := &streams.BatchAppendResp{}
	wantErr := proto.Unmarshal(encoded, message)
	if (err == nil) != (wantErr == nil) {
		t.Fatalf("%v, want %v", err, wantErr)
	}
	if wantErr == nil && byHand.decode(encoded) {
		if want := answerOf(message); byHand != want {
			t.Errorf("%+v, want %+v", byHand, want)
		}
	}
	return got
}

func FuzzDecodeBatchAnswer(f *testing.F) {
	for _, message := range batchAnswers(f) {
		encoded, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Fuzz(func(t *testing.T, encoded []byte) {
		message, byHand := &streams.BatchAppendResp{}, batchAnswer{}
		if proto.Unmarshal(encoded, message) != nil || !byHand.decode(encoded) {
			return
		}
		if want := answerOf(message); byHand != want {
			t.Errorf("%+v, want %+v", byHand, want)
		}
	})
}
