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

// The client uses the codec that is registered as protobuf's, and has no option for another one.
func init() { //nolint:gochecknoinits // gRPC takes codecs at this time only
	encoding.RegisterCodecV2(codec{generated: encoding.GetCodecV2(proto.Name)})
}

// Name implements encoding.CodecV2.
func (codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c codec) Marshal(v any) (mem.BufferSlice, error) {
	if request, ok := v.(*streams.AppendReq); ok {
		if encoded := encodeAppend(request); encoded != nil {
			return mem.BufferSlice{encoded}, nil
		}
	}
	return c.generated.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c codec) Unmarshal(data mem.BufferSlice, v any) error {
	switch response := v.(type) {
	case *streams.ReadResp:
		if !holdsEvent(data) {
			break
		}
		// A copy of its own, as the event goes on using it.
		if content := decodeEvent(data.Materialize()); content != nil {
			response.Reset()
			response.Content = content
			return nil
		}
	case *streams.AppendResp:
		if len(data) != 1 {
			break
		}
		if result := decodeAppended(data[0].ReadOnlyData()); result != nil {
			response.Reset()
			response.Result = result
			return nil
		}
	}
	return c.generated.Unmarshal(data, v)
}
