package esdb

import (
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// Fields, by the messages they are in.
const (
	optionsInRequest  = 1
	proposedInRequest = 2

	streamInOptions   = 1
	nameInIdentifier  = 3
	revisionInOptions = 2
	noStreamInOptions = 3

	idInProposed     = 1
	systemInProposed = 2
	customInProposed = 3
	dataInProposed   = 4
)

const (
	headRoom = 1 + 10       // for a field's tag, and its length or number
	idRoom   = 4 * headRoom // for the longest id
)

// encodeAppend encodes a message of an append: the options that it begins with, or an event. It returns nil for what
// it does not know, and for what the generated code refuses. There are no unknown fields to keep, as the client makes
// each request itself.
func encodeAppend(request *streams.AppendReq) mem.Buffer {
	switch content := request.GetContent().(type) {
	case *streams.AppendReq_Options_:
		return encodeOptions(content.Options)
	case *streams.AppendReq_ProposedMessage_:
		return encodeProposed(content.ProposedMessage)
	}
	return nil
}

func encodeOptions(options *streams.AppendReq_Options) mem.Buffer {
	name := options.GetStreamIdentifier().GetStreamName()
	if len(name) == 0 {
		return nil
	}
	var room [headRoom]byte
	var expected []byte
	switch option := options.GetExpectedStreamRevision().(type) {
	case *streams.AppendReq_Options_Revision:
		expected = protowire.AppendTag(room[:0], revisionInOptions, protowire.VarintType)
		expected = protowire.AppendVarint(expected, option.Revision)
	case *streams.AppendReq_Options_NoStream:
		expected = append(protowire.AppendTag(room[:0], noStreamInOptions, protowire.BytesType), 0)
	default:
		return nil
	}
	stream := 1 + protowire.SizeBytes(len(name))
	size := 1 + protowire.SizeBytes(stream) + len(expected)
	message := make([]byte, 0, 1+protowire.SizeBytes(size))
	message = protowire.AppendTag(message, optionsInRequest, protowire.BytesType)
	message = protowire.AppendVarint(message, uint64(size)) // #nosec G115 -- not negative
	message = protowire.AppendTag(message, streamInOptions, protowire.BytesType)
	message = protowire.AppendVarint(message, uint64(stream)) // #nosec G115 -- not negative
	message = protowire.AppendBytes(protowire.AppendTag(message, nameInIdentifier, protowire.BytesType), name)
	return mem.SliceBuffer(append(message, expected...))
}

func encodeProposed(event *streams.AppendReq_ProposedMessage) mem.Buffer {
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
	message := appendUUID((*buffer)[:headRoom], idInProposed,
		uint64(id.Structured.GetMostSignificantBits()), uint64(id.Structured.GetLeastSignificantBits())) // #nosec G115 -- bits
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

// appended is all that the answer to a successful append consists of, in one piece of memory.
type appended struct {
	content  streams.AppendResp_Success_
	success  streams.AppendResp_Success
	revision streams.AppendResp_Success_CurrentRevision
	at       streams.AppendResp_Success_Position
	position streams.AppendResp_Position
}

// Fields as they begin on the wire.
const (
	successInResponse = 1<<3 | uint64(protowire.BytesType)
	revisionInSuccess = 1<<3 | uint64(protowire.VarintType)
	positionInSuccess = 3<<3 | uint64(protowire.BytesType)
	commitInPosition  = 1<<3 | uint64(protowire.VarintType)
	prepareInPosition = 2<<3 | uint64(protowire.VarintType)
)

// decodeAppended decodes the answer to an append. It returns nil where that is anything but a revision and a position.
func decodeAppended(message []byte) *streams.AppendResp_Success_ {
	response := fields{rest: message}
	if !response.next() || response.tag != successInResponse || len(response.rest) > 0 {
		return nil
	}
	a := &appended{}
	a.content.Success, a.at.Position = &a.success, &a.position
	success := fields{rest: response.content}
	for success.next() {
		switch {
		case success.tag == revisionInSuccess:
			a.success.CurrentRevisionOption, a.revision.CurrentRevision = &a.revision, success.value
		case success.tag == positionInSuccess && a.success.PositionOption == nil && a.decodePosition(success.content):
			a.success.PositionOption = &a.at
		default:
			return nil
		}
	}
	if success.malformed {
		return nil
	}
	return &a.content
}

func (a *appended) decodePosition(message []byte) bool {
	position := fields{rest: message}
	for position.next() {
		switch position.tag {
		case commitInPosition:
			a.position.CommitPosition = position.value
		case prepareInPosition:
			a.position.PreparePosition = position.value
		default:
			return false
		}
	}
	return !position.malformed
}
