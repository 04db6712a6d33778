package esdb

import (
	"bytes"
	"strings"
	"testing"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/proto"
)

func structured(most, least int64) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{
		Structured: &shared.UUID_Structured{MostSignificantBits: most, LeastSignificantBits: least},
	}}
}

func sampleEvent() *streams.ReadResp {
	return &streams.ReadResp{Content: &streams.ReadResp_Event{Event: &streams.ReadResp_ReadEvent{
		Event: &streams.ReadResp_ReadEvent_RecordedEvent{
			Id: structured(-1, 1<<40), StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte("item-1")},
			StreamRevision: 7, PreparePosition: 1 << 33, CommitPosition: 1 << 33,
			Metadata:       map[string]string{"type": "item.added.v1", "content-type": "application/json", "created": "17000"},
			CustomMetadata: []byte(`{"actor":"a"}`), Data: []byte(`{"title":"звон"}`),
		},
		Position: &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: 1 << 33},
	}}}
}

// variants are messages near the plain event: some are decoded by hand, and some must be left alone.
func variants() map[string]*streams.ReadResp {
	list := map[string]*streams.ReadResp{
		"event":        sampleEvent(),
		"empty":        {Content: &streams.ReadResp_Event{Event: &streams.ReadResp_ReadEvent{}}},
		"caught up":    {Content: &streams.ReadResp_CaughtUp_{CaughtUp: &streams.ReadResp_CaughtUp{}}},
		"checkpoint":   {Content: &streams.ReadResp_Checkpoint_{Checkpoint: &streams.ReadResp_Checkpoint{CommitPosition: 3}}},
		"nothing":      {},
		"confirmation": {Content: &streams.ReadResp_Confirmation{Confirmation: &streams.ReadResp_SubscriptionConfirmation{SubscriptionId: "s"}}},
	}
	change := func(name string, how func(*streams.ReadResp_ReadEvent)) {
		message := sampleEvent()
		how(message.GetEvent())
		list[name] = message
	}
	change("link", func(e *streams.ReadResp_ReadEvent) { e.Link = e.GetEvent() })
	change("broken link", func(e *streams.ReadResp_ReadEvent) { e.Link, e.Event = e.GetEvent(), nil })
	change("no position", func(e *streams.ReadResp_ReadEvent) {
		e.Position = &streams.ReadResp_ReadEvent_NoPosition{NoPosition: &shared.Empty{}}
	})
	change("position left out", func(e *streams.ReadResp_ReadEvent) { e.Position = nil })
	change("id as text", func(e *streams.ReadResp_ReadEvent) {
		e.Event.Id = &shared.UUID{Value: &shared.UUID_String_{String_: "0d000000-0000-4000-8000-000000000001"}}
	})
	change("zero id", func(e *streams.ReadResp_ReadEvent) { e.Event.Id = structured(0, 0) })
	change("no id", func(e *streams.ReadResp_ReadEvent) { e.Event.Id = nil })
	change("no stream", func(e *streams.ReadResp_ReadEvent) { e.Event.StreamIdentifier = nil })
	change("no metadata", func(e *streams.ReadResp_ReadEvent) { e.Event.Metadata = nil })
	change("more metadata", func(e *streams.ReadResp_ReadEvent) { e.Event.Metadata["future"] = "" })
	change("no content", func(e *streams.ReadResp_ReadEvent) { e.Event.Data, e.Event.CustomMetadata = nil, nil })
	return list
}

func TestEventsAreDecodedAsTheGeneratedCodeDoes(t *testing.T) {
	t.Parallel()
	for name, message := range variants() {
		encoded, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		sameDecoding(t, name, encoded)
	}
	plain, err := proto.Marshal(sampleEvent())
	if err != nil {
		t.Fatal(err)
	}
	if decodeEvent(plain) == nil {
		t.Error("a plain event is left to the generated code")
	}
}

// sameDecoding decodes a message both ways, in one piece and in two, into one that holds something already.
func sameDecoding(t *testing.T, name string, encoded []byte) {
	t.Helper()
	generated := &streams.ReadResp{}
	wantErr := proto.Unmarshal(encoded, generated)
	want := toldBy(generated)
	for _, cut := range []int{0, len(encoded) / 2} {
		received := bytes.Clone(encoded)
		got := told{entry: &Entry{JSON: true}}
		err := newCodec().Unmarshal(
			mem.BufferSlice{mem.SliceBuffer(received[:cut]), mem.SliceBuffer(received[cut:])}, &got)
		clear(received) // gRPC uses its memory again
		if (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, want %v", name, err, wantErr)
		}
		if err != nil {
			continue
		}
		if diff := cmp.Diff(want.entry, got.entry, cmp.AllowUnexported(Entry{}), cmpopts.EquateEmpty()); diff != "" || !proto.Equal(got.other, want.other) {
			t.Errorf("%s: %v, want %v; events:\n%s", name, got.other, want.other, diff)
		}
	}
}

func FuzzDecodeEvent(f *testing.F) {
	for _, message := range variants() {
		encoded, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		f.Add(append(encoded, encoded...))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) { sameDecoding(t, "fuzzed", encoded) })
}

func TestAppendsAreEncodedAsTheGeneratedCodeDoes(t *testing.T) {
	t.Parallel()
	properties := map[string]string{"type": "item.added.v1", "content-type": "application/json"}
	for name, message := range map[string]*streams.AppendReq{
		"event": proposing(&streams.AppendReq_ProposedMessage{
			Id: structured(-1, 5), Metadata: properties, Data: []byte(`{}`), CustomMetadata: []byte(`{"a":1}`),
		}),
		"large": proposing(&streams.AppendReq_ProposedMessage{
			Id: structured(1, -1), Metadata: properties, Data: bytes.Repeat([]byte("x"), 300_000),
		}),
		"empty content": proposing(&streams.AppendReq_ProposedMessage{Id: structured(0, 0), Metadata: properties, Data: []byte{}}),
		"bare":          proposing(&streams.AppendReq_ProposedMessage{}),
		"text id":       proposing(&streams.AppendReq_ProposedMessage{Id: &shared.UUID{Value: &shared.UUID_String_{String_: "x"}}}),
		"no text":       proposing(&streams.AppendReq_ProposedMessage{Id: structured(1, 2), Metadata: map[string]string{"type": "\xff"}}),
		"revision": expecting("item-1", &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_Revision{Revision: 1 << 40},
		}),
		"revision 0": expecting("item-1", &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_Revision{},
		}),
		"no stream": expecting("item-1", &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
		}),
		"any": expecting("item-1", &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_Any{Any: &shared.Empty{}},
		}),
		"long name": expecting(strings.Repeat("n", 4000), &streams.AppendReq_Options{
			ExpectedStreamRevision: &streams.AppendReq_Options_NoStream{NoStream: &shared.Empty{}},
		}),
		"no options": {Content: &streams.AppendReq_Options_{Options: &streams.AppendReq_Options{}}},
		"nothing":    {},
	} {
		encoded, err := newCodec().Marshal(message)
		if _, wantErr := proto.Marshal(message); (err == nil) != (wantErr == nil) {
			t.Errorf("%s: %v, want %v", name, err, wantErr)
		}
		if err != nil {
			continue
		}
		got := &streams.AppendReq{}
		if err := proto.Unmarshal(encoded.Materialize(), got); err != nil || !proto.Equal(got, message) {
			t.Errorf("%s: %v %v", name, got, err)
		}
		encoded.Free()
	}
}

func TestAnswersToAppendsAreDecodedAsTheGeneratedCodeDoes(t *testing.T) {
	t.Parallel()
	for name, message := range answers() {
		encoded, err := proto.Marshal(message)
		if err != nil {
			t.Fatal(err)
		}
		sameAnswer(t, name, encoded)
	}
	plain, err := proto.Marshal(answers()["success"])
	if err != nil {
		t.Fatal(err)
	}
	if decodeAppended(plain) == nil {
		t.Error("a plain success is left to the generated code")
	}
}

func answers() map[string]*streams.AppendResp {
	position := &streams.AppendResp_Success_Position{
		Position: &streams.AppendResp_Position{CommitPosition: 1 << 40, PreparePosition: 1<<40 - 1},
	}
	success := func(s *streams.AppendResp_Success) *streams.AppendResp {
		return &streams.AppendResp{Result: &streams.AppendResp_Success_{Success: s}}
	}
	return map[string]*streams.AppendResp{
		"success": success(&streams.AppendResp_Success{
			CurrentRevisionOption: &streams.AppendResp_Success_CurrentRevision{CurrentRevision: 300}, PositionOption: position,
		}),
		"first": success(&streams.AppendResp_Success{
			CurrentRevisionOption: &streams.AppendResp_Success_CurrentRevision{}, PositionOption: position,
		}),
		"no revision": success(&streams.AppendResp_Success{PositionOption: position}),
		"no stream": success(&streams.AppendResp_Success{
			CurrentRevisionOption: &streams.AppendResp_Success_NoStream{NoStream: &shared.Empty{}},
			PositionOption:        &streams.AppendResp_Success_NoPosition{NoPosition: &shared.Empty{}},
		}),
		"bare":    success(&streams.AppendResp_Success{}),
		"nothing": {},
		"wrong": {Result: &streams.AppendResp_WrongExpectedVersion_{
			WrongExpectedVersion: &streams.AppendResp_WrongExpectedVersion{
				CurrentRevisionOption: &streams.AppendResp_WrongExpectedVersion_CurrentRevision{CurrentRevision: 3},
			},
		}},
	}
}

func sameAnswer(t *testing.T, name string, encoded []byte) {
	t.Helper()
	want, got := &streams.AppendResp{}, &streams.AppendResp{Result: &streams.AppendResp_WrongExpectedVersion_{}}
	wantErr := proto.Unmarshal(encoded, want)
	err := newCodec().Unmarshal(mem.BufferSlice{mem.SliceBuffer(encoded)}, got)
	if (err == nil) != (wantErr == nil) || err == nil && !proto.Equal(got, want) {
		t.Errorf("%s: %v %v, want %v %v", name, got, err, want, wantErr)
	}
}

func FuzzDecodeAnswer(f *testing.F) {
	for _, message := range answers() {
		encoded, err := proto.Marshal(message)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(encoded)
		f.Add(append(encoded, encoded...))
	}
	f.Fuzz(func(t *testing.T, encoded []byte) { sameAnswer(t, "fuzzed", encoded) })
}

func expecting(stream string, options *streams.AppendReq_Options) *streams.AppendReq {
	options.StreamIdentifier = &shared.StreamIdentifier{StreamName: []byte(stream)}
	return &streams.AppendReq{Content: &streams.AppendReq_Options_{Options: options}}
}

func proposing(event *streams.AppendReq_ProposedMessage) *streams.AppendReq {
	return &streams.AppendReq{Content: &streams.AppendReq_ProposedMessage_{ProposedMessage: event}}
}

func BenchmarkDecodeEvent(b *testing.B) {
	encoded, err := proto.Marshal(sampleEvent())
	if err != nil {
		b.Fatal(err)
	}
	data := mem.BufferSlice{mem.SliceBuffer(encoded)}
	messages := map[string]func() any{"by hand": func() any { return &told{} }, "generated": func() any { return &streams.ReadResp{} }}
	c := newCodec()
	for name, into := range messages {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if err := c.Unmarshal(data, into()); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
