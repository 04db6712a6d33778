package esdb

import (
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// codec is gRPC's protobuf codec with a shorter way for the messages in which events travel. What it does not know it
// leaves to the generated code, so that every message means the same either way.
type codec struct{ generated encoding.CodecV2 }

func newCodec() codec { return codec{generated: encoding.GetCodecV2(proto.Name)} }

// encoded is a message that is sent as it is. Sending it gives its memory back.
type encoded struct{ buffer mem.Buffer }

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	switch request := v.(type) {
	case *encoded:
		return mem.BufferSlice{request.buffer}, nil
	case *streams.AppendReq:
		if message := encodeAppend(request); message != nil {
			return mem.BufferSlice{message}, nil
		}
	}
	return c.generated.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch response := v.(type) {
	case *told:
		if holdsEvent(data) {
			// A copy of its own, as the event goes on using it.
			if entry := decodeEvent(data.Materialize()); entry != nil {
				*response = told{entry: entry}
				return nil
			}
		}
		message := &streams.ReadResp{}
		if err := c.generated.Unmarshal(data, message); err != nil {
			return err
		}
		*response = toldBy(message)
		return nil
	case *streams.AppendResp:
		if len(data) != 1 {
			break
		}
		if result := decodeAppended(data[0].ReadOnlyData()); result != nil {
			response.Reset()
			response.Result = result
			return nil
		}
	case *batchAnswer:
		if len(data) == 1 && response.decode(data[0].ReadOnlyData()) {
			return nil
		}
		message := &streams.BatchAppendResp{}
		if err := c.generated.Unmarshal(data, message); err != nil {
			return err
		}
		*response = answerOf(message)
		return nil
	}
	return c.generated.Unmarshal(data, v)
}
