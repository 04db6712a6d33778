// Package wire encodes and decodes the messages that events travel in, by hand: appends are read without building a
// message first, and reads copy what is stored behind a few generated fields. All other messages are left to the
// generated code.
package wire

import (
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/proto"
	"google.golang.org/grpc/mem"
)

// Codec is the protobuf codec for gRPC servers that also passes Raw and Encoded messages through.
type Codec struct{ proto encoding.CodecV2 }

// NewCodec returns a codec for grpc.ForceServerCodecV2.
func NewCodec() Codec { return Codec{proto: encoding.GetCodecV2(proto.Name)} }

// Raw is a received message, not yet decoded. Free it after use.
type Raw struct{ buffer mem.Buffer }

// Bytes returns the message; valid until Free.
func (r *Raw) Bytes() []byte { return r.buffer.ReadOnlyData() }

// Free gives the message's memory back.
func (r *Raw) Free() {
	r.buffer.Free()
	r.buffer = nil
}

// Encoded is a message to be sent as it is. Sending it passes on the reference to its buffer.
type Encoded struct{ Buffer mem.Buffer }

// Name implements encoding.CodecV2.
func (Codec) Name() string { return proto.Name }

// Marshal implements encoding.CodecV2.
func (c Codec) Marshal(v any) (mem.BufferSlice, error) {
	if message, ok := v.(*Encoded); ok {
		return mem.BufferSlice{message.Buffer}, nil
	}
	return c.proto.Marshal(v)
}

// Unmarshal implements encoding.CodecV2.
func (c Codec) Unmarshal(data mem.BufferSlice, v any) error {
	if message, ok := v.(*Raw); ok {
		message.buffer = data.MaterializeToBuffer(mem.DefaultBufferPool())
		return nil
	}
	return c.proto.Unmarshal(data, v)
}
