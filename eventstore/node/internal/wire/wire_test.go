package wire

import (
	"bytes"
	"strconv"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/uuid"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore/node/internal/store"
)

// records stores events and returns them as they are read back.
func records(tb testing.TB, contents ...store.EventContent) (list []store.Record) {
	tb.Helper()
	s, err := store.Open(store.Options{Dir: "node", FS: vfs.NewMem()})
	if err != nil {
		tb.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			tb.Error(err)
		}
	}()
	for _, content := range contents {
		proposed := []store.Proposed{store.Propose(content)}
		if _, err := s.Append(tb.Context(), content.Stream, store.Any(), proposed); err != nil {
			tb.Fatal(err)
		}
	}
	if _, _, err := s.ReadAll(0, func(r store.Record) bool {
		list = append(list, r.Clone())
		return true
	}); err != nil {
		tb.Fatal(err)
	}
	return list
}

func contents() []store.EventContent {
	return []store.EventContent{
		{ID: store.EventID(uuid.New()), Stream: "s-1", Type: "json", JSON: true, Metadata: []byte(`{}`), Data: []byte(`{"a":1}`)},
		{ID: store.EventID(uuid.New()), Stream: "s-1", Type: "binary", Data: []byte{0, 255}},
		{ID: store.EventID(uuid.New()), Stream: "s-1", Type: "empty"},
		{ID: store.EventID{}, Stream: "другой", Type: "zero id"},
	}
}

func TestEventsAreEncodedAsTheGeneratedCodeReadsThem(t *testing.T) {
	t.Parallel()
	list := contents()
	for i, record := range records(t, list...) {
		for _, form := range []UUIDForm{StructuredUUID, StringUUID} {
			encoded := AppendReadResponse(nil, Event{Event: &record, Link: &record}, form)
			plain, linked := &streams.ReadResp{}, &streams.ReadResp{}
			if err := proto.Unmarshal(AppendReadResponse(nil, Event{Event: &record}, form), plain); err != nil {
				t.Fatal(err)
			}
			if err := proto.Unmarshal(encoded, linked); err != nil {
				t.Fatal(err)
			}
			got := plain.GetEvent().GetEvent()
			want := &streams.ReadResp_ReadEvent_RecordedEvent{
				Id: protoUUID(record.ID(), form), StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(list[i].Stream)},
				StreamRevision: record.Revision(), PreparePosition: record.Position, CommitPosition: record.Position,
				Metadata: map[string]string{
					"type": list[i].Type, "created": strconv.FormatInt(record.Created(), 10),
					"content-type": map[bool]string{true: "application/json", false: "application/octet-stream"}[list[i].JSON],
				},
				CustomMetadata: list[i].Metadata, Data: list[i].Data,
			}
			if !proto.Equal(got, want) {
				t.Errorf("event %d: %v, want %v", i, got, want)
			}
			if plain.GetEvent().GetCommitPosition() != record.Position {
				t.Errorf("event %d at %d", i, plain.GetEvent().GetCommitPosition())
			}
			both := linked.GetEvent()
			if !proto.Equal(both.GetEvent(), both.GetLink()) ||
				both.GetLink().GetStreamRevision() != record.Revision() || !bytes.Equal(both.GetEvent().GetData(), list[i].Data) {
				t.Errorf("event %d with a link: %v", i, both)
			}
		}
	}
}

func protoUUID(id store.EventID, form UUIDForm) *shared.UUID {
	if form == StringUUID {
		return &shared.UUID{Value: &shared.UUID_String_{String_: uuid.UUID(id).String()}}
	}
	structured := &shared.UUID_Structured{}
	for i, b := range id {
		if i < 8 {
			structured.MostSignificantBits = structured.MostSignificantBits<<8 | int64(b)
		} else {
			structured.LeastSignificantBits = structured.LeastSignificantBits<<8 | int64(b)
		}
	}
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: structured}}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	for _, result := range []store.Result{{Revision: 0, Position: 512}, {Revision: 1 << 40, Position: 1 << 50}, {Revision: -1}, {Revision: 5}} {
		response := &streams.AppendResp{}
		if err := proto.Unmarshal(AppendSuccess(nil, result), response); err != nil {
			t.Fatal(err)
		}
		success := response.GetSuccess()
		if result.Revision >= 0 && success.GetCurrentRevision() != uint64(result.Revision) ||
			result.Revision < 0 && success.GetNoStream() == nil ||
			success.GetPosition().GetCommitPosition() != result.Position ||
			result.Position == 0 && success.GetNoPosition() == nil {
			t.Errorf("%+v became %v", result, response)
		}
	}
	checkpoint := &streams.ReadResp{}
	if err := proto.Unmarshal(AppendCheckpoint(nil, 77), checkpoint); err != nil || checkpoint.GetCheckpoint().GetCommitPosition() != 77 {
		t.Errorf("%v, %v", checkpoint, err)
	}
}

// FuzzAppendRequest compares the decoder with the generated one.
func FuzzAppendRequest(f *testing.F) {
	for _, message := range []*streams.AppendReq{
		{Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{
			StreamIdentifier:       &shared.StreamIdentifier{StreamName: []byte("s")},
			ExpectedStreamRevision: &streams.AppendReq_Options_Revision{Revision: 3},
		}}},
		{Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
		}}},
		{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: &streams.AppendReq_ProposedMessage{
			Id:       protoUUID(store.EventID{1, 15: 2}, StructuredUUID),
			Metadata: map[string]string{"type": "t", "content-type": "application/json", "other": "x"},
			Data:     []byte("data"), CustomMetadata: []byte("meta"),
		}}},
		{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: &streams.AppendReq_ProposedMessage{
			Id: protoUUID(store.EventID{1, 15: 2}, StringUUID), Metadata: map[string]string{"type": "t"},
		}}},
	} {
		encoded, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
	}
	f.Add([]byte{0x0a, 0x05})
	f.Fuzz(func(t *testing.T, message []byte) {
		got, err := ParseAppendRequest(message)
		want := &streams.AppendReq{}
		if proto.Unmarshal(message, want) != nil {
			return // the generated decoder also minds text that is not UTF-8, so ours may accept more
		}
		if err != nil {
			return
		}
		if got.IsOptions != (want.GetOptions() != nil) {
			t.Fatalf("options %v in %v", got.IsOptions, want)
		}
		if proposed := want.GetProposedMessage(); proposed != nil && onlyOnce(message) {
			if !bytes.Equal(got.Event.Data, proposed.GetData()) || !bytes.Equal(got.Event.Metadata, proposed.GetCustomMetadata()) ||
				got.Event.Type != proposed.GetMetadata()["type"] {
				t.Errorf("%+v of %v", got.Event, proposed)
			}
		}
		if options := want.GetOptions(); options != nil && onlyOnce(message) {
			if revision, exact := got.Expected.Exact(); exact && revision != options.GetRevision() {
				t.Errorf("revision %d of %v", revision, options)
			}
		}
	})
}

// onlyOnce reports whether a message has one field: repeated ones are merged by the generated code, and none of the
// clients sends them.
func onlyOnce(message []byte) bool {
	count := 0
	_ = fields(message, func(_ protowire.Number, _ []byte, _ uint64) error {
		count++
		return nil
	})
	return count == 1
}
