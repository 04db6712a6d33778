package esdb

import (
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

const (
	proposedInRequest = 2
	idInProposed      = 1
	systemInProposed  = 2
	customInProposed  = 3
	dataInProposed    = 4

	headRoom = 1 + 10                  // a field's tag and length
	idRoom   = 2*headRoom + 2*headRoom // the longest id
)

// encodeAppend encodes a message of an append that proposes an event. It returns nil for others, and for what the
// generated code refuses. There are no unknown fields to keep: the client makes each request itself.
func encodeAppend(request *streams.AppendReq) mem.Buffer {
	content, ok := request.GetContent().(*streams.AppendReq_ProposedMessage_)
	if !ok {
		return nil
	}
	event := content.ProposedMessage
	id, ok := event.GetId().GetValue().(*shared.UUID_Structured_)
	if !ok {
		return nil
	}
	size := headRoom + idRoom + headRoom + len(event.GetCustomMetadata()) + headRoom + len(event.GetData())
	for key, value := range event.GetMetadata() {
		if !utf8.ValidString(key) || !utf8.ValidString(value) {
			return nil
		}
		size += headRoom + headRoom + len(key) + headRoom + len(value)
	}
	pool := mem.BufferPool(mem.NopBufferPool{})
	if !mem.IsBelowBufferPoolingThreshold(size) {
		pool = mem.DefaultBufferPool()
	}
	buffer := pool.Get(size)
	// How long the event is shows at its end, so its own head is put before it afterwards.
	message := appendID((*buffer)[:headRoom], id.Structured)
	for key, value := range event.GetMetadata() {
		message = appendProperty(message, key, value)
	}
	message = appendPiece(message, customInProposed, event.GetCustomMetadata())
	message = appendPiece(message, dataInProposed, event.GetData())

	var room [headRoom]byte
	head := protowire.AppendTag(room[:0], proposedInRequest, protowire.BytesType)
	head = protowire.AppendVarint(head, uint64(len(message)-headRoom)) // #nosec G115 -- not negative
	start := headRoom - len(head)
	copy(message[start:], head)
	whole := mem.NewBuffer(buffer, pool)
	defer whole.Free()
	return whole.Slice(start, len(message))
}

func appendID(dst []byte, id *shared.UUID_Structured) []byte {
	most, least := uint64(id.GetMostSignificantBits()), uint64(id.GetLeastSignificantBits()) // #nosec G115 -- bits
	bits := 2 + protowire.SizeVarint(most) + protowire.SizeVarint(least)
	dst = protowire.AppendTag(dst, idInProposed, protowire.BytesType)
	dst = append(dst, byte(2+bits)) // #nosec G115 -- at most 24
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = append(dst, byte(bits)) // #nosec G115 -- at most 22
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.VarintType), most)
	return protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.VarintType), least)
}

func appendProperty(dst []byte, key, value string) []byte {
	size := 2 + protowire.SizeBytes(len(key)) + protowire.SizeBytes(len(value))
	dst = protowire.AppendTag(dst, systemInProposed, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size)) // #nosec G115 -- not negative
	dst = protowire.AppendString(protowire.AppendTag(dst, 1, protowire.BytesType), key)
	return protowire.AppendString(protowire.AppendTag(dst, 2, protowire.BytesType), value)
}

// appendPiece leaves out what is empty, as the generated code does.
func appendPiece(dst []byte, field protowire.Number, content []byte) []byte {
	if len(content) == 0 {
		return dst
	}
	return protowire.AppendBytes(protowire.AppendTag(dst, field, protowire.BytesType), content)
}
