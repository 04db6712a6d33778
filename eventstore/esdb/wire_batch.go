package esdb

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"carillon/eventstore"
)

// Fields of the messages of BatchAppend. Events in them are as in those of Append.
const (
	correlationInBatch = 1
	optionsInBatch     = 2
	proposedInBatch    = 3
	finalInBatch       = 4
	deadlineInOptions  = 7
)

var errNoText = errors.New("a type or a stream's name is not text in UTF-8")

// encodeBatch encodes an append that is one message of BatchAppend. The two halves of its correlation id tell its
// answer from others.
func encodeBatch(most, least uint64, stream string, expected eventstore.Revision, within time.Duration, events []proposal) (*encoded, error) {
	size := idRoom + headRoom + len(stream) + 6*headRoom
	for i := range events {
		size += idRoom + 9*headRoom + len(events[i].Type) + len(events[i].contentType) + len("type") + len("content-type") +
			len(events[i].Metadata) + len(events[i].Data)
		if !utf8.ValidString(events[i].Type) {
			return nil, errNoText
		}
	}
	if !utf8.ValidString(stream) {
		return nil, errNoText
	}
	pool := mem.BufferPool(mem.NopBufferPool{})
	if !mem.IsBelowBufferPoolingThreshold(size) {
		pool = mem.DefaultBufferPool()
	}
	buffer := pool.Get(size)
	message := appendUUID((*buffer)[:0], correlationInBatch, most, least)
	message = protowire.AppendTag(message, optionsInBatch, protowire.BytesType)
	message = appendBatchOptions(message, stream, expected, within)
	for i := range events {
		message = events[i].appendTo(message)
	}
	message = protowire.AppendVarint(protowire.AppendTag(message, finalInBatch, protowire.VarintType), 1)
	*buffer = message
	return &encoded{buffer: mem.NewBuffer(buffer, pool)}, nil
}

func appendBatchOptions(dst []byte, stream string, expected eventstore.Revision, within time.Duration) []byte {
	var room, roomToo [3 * headRoom]byte
	position := room[:0]
	if expected >= 0 {
		position = protowire.AppendTag(position, revisionInOptions, protowire.VarintType)
		position = protowire.AppendVarint(position, uint64(expected))
	} else {
		position = append(protowire.AppendTag(position, noStreamInOptions, protowire.BytesType), 0)
	}
	within = max(within, time.Millisecond)
	duration := protowire.AppendVarint(protowire.AppendTag(roomToo[:0], 1, protowire.VarintType), uint64(within/time.Second)) //nolint:gosec // above 0
	duration = protowire.AppendVarint(protowire.AppendTag(duration, 2, protowire.VarintType), uint64(within%time.Second))     //nolint:gosec // above 0
	name := 1 + protowire.SizeBytes(len(stream))
	dst = protowire.AppendVarint(dst, uint64(1+protowire.SizeBytes(name)+len(position)+1+protowire.SizeBytes(len(duration)))) //nolint:gosec // not negative
	dst = protowire.AppendTag(dst, streamInOptions, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(name)) //nolint:gosec // not negative
	dst = protowire.AppendString(protowire.AppendTag(dst, nameInIdentifier, protowire.BytesType), stream)
	dst = append(dst, position...)
	return protowire.AppendBytes(protowire.AppendTag(dst, deadlineInOptions, protowire.BytesType), duration)
}

// appendTo appends the event as a field of the batch.
func (p *proposal) appendTo(dst []byte) []byte {
	most, least := bitsOf(p.ID)
	length := sizeOfUUID(most, least) + sizeOfProperty("type", p.Type) + sizeOfProperty("content-type", p.contentType) +
		sizeOfPiece(p.Metadata) + sizeOfPiece(p.Data)
	dst = protowire.AppendTag(dst, proposedInBatch, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(length)) //nolint:gosec // not negative
	dst = appendUUID(dst, idInProposed, most, least)
	dst = appendProperty(dst, "type", p.Type)
	dst = appendProperty(dst, "content-type", p.contentType)
	dst = appendPiece(dst, customInProposed, p.Metadata)
	return appendPiece(dst, dataInProposed, p.Data)
}

func bitsOf(id uuid.UUID) (most, least uint64) {
	return binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
}

func uuidOf(most, least uint64) (id uuid.UUID) {
	binary.BigEndian.PutUint64(id[:8], most)
	binary.BigEndian.PutUint64(id[8:], least)
	return id
}

func sizeOfUUID(most, least uint64) int {
	bits := 2 + protowire.SizeVarint(most) + protowire.SizeVarint(least)
	return 1 + protowire.SizeBytes(1+protowire.SizeBytes(bits))
}

// appendUUID appends an id of two numbers.
func appendUUID(dst []byte, field protowire.Number, most, least uint64) []byte {
	bits := 2 + protowire.SizeVarint(most) + protowire.SizeVarint(least)
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = append(dst, byte(2+bits)) //nolint:gosec // at most 24
	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = append(dst, byte(bits)) //nolint:gosec // at most 22
	dst = protowire.AppendVarint(protowire.AppendTag(dst, 1, protowire.VarintType), most)
	return protowire.AppendVarint(protowire.AppendTag(dst, 2, protowire.VarintType), least)
}

func sizeOfProperty(key, value string) int {
	return 1 + protowire.SizeBytes(2+protowire.SizeBytes(len(key))+protowire.SizeBytes(len(value)))
}

func sizeOfPiece(content []byte) int {
	if len(content) == 0 {
		return 0
	}
	return 1 + protowire.SizeBytes(len(content))
}

// batchAnswer is the answer to one append of a BatchAppend call.
type batchAnswer struct {
	most, id uint64 // the correlation id
	appended eventstore.Appended
	err      error
}

// Fields of an answer as they begin on the wire.
const (
	correlationInAnswer = 1<<3 | uint64(protowire.BytesType)
	successInAnswer     = 3<<3 | uint64(protowire.BytesType)
	streamInAnswer      = 4<<3 | uint64(protowire.BytesType)
	positionInAnswer    = 5<<3 | uint64(protowire.VarintType)
	noStreamInAnswer    = 6<<3 | uint64(protowire.BytesType)
)

// decode reads a success. It reports false for anything else, which is then the generated code's to read.
func (a *batchAnswer) decode(message []byte) bool {
	*a = batchAnswer{}
	known, succeeded := true, false
	answer := fields{rest: message}
	for known && answer.next() {
		switch answer.tag {
		case correlationInAnswer:
			known = a.decodeID(answer.content)
		case successInAnswer:
			known, succeeded = a.decodeSuccess(answer.content), true
		case streamInAnswer, positionInAnswer, noStreamInAnswer: // what was asked
		default:
			known = false
		}
	}
	return known && succeeded && !answer.malformed
}

func (a *batchAnswer) decodeID(message []byte) bool {
	form := fields{rest: message}
	if !form.next() || form.tag != structuredInID || len(form.rest) > 0 {
		return false
	}
	bits := fields{rest: form.content}
	for bits.next() {
		switch bits.tag {
		case mostInStructured:
			a.most = bits.value
		case leastInStructured:
			a.id = bits.value
		default:
			return false
		}
	}
	return !bits.malformed
}

func (a *batchAnswer) decodeSuccess(message []byte) bool {
	success := fields{rest: message}
	for success.next() {
		switch success.tag {
		case revisionInSuccess:
			a.appended.Revision = eventstore.Revision(success.value) //nolint:gosec // revisions fit an int64 by protocol
		case positionInSuccess:
			position := fields{rest: success.content}
			for position.next() {
				switch position.tag {
				case commitInPosition:
					a.appended.Position.Commit = position.value
				case prepareInPosition:
					a.appended.Position.Prepare = position.value
				default:
					return false
				}
			}
			if position.malformed {
				return false
			}
		default:
			return false
		}
	}
	return !success.malformed
}

// answerOf reads an answer of any kind.
func answerOf(message *streams.BatchAppendResp) batchAnswer {
	id := message.GetCorrelationId()
	answer := batchAnswer{
		most: uint64(id.GetStructured().GetMostSignificantBits()),  //nolint:gosec // bits
		id:   uint64(id.GetStructured().GetLeastSignificantBits()), //nolint:gosec // bits
	}
	if parsed, err := uuid.Parse(id.GetString_()); err == nil {
		answer.most, answer.id = bitsOf(parsed)
	}
	if success := message.GetSuccess(); success != nil {
		answer.appended = eventstore.Appended{
			Revision: eventstore.Revision(success.GetCurrentRevision()), //nolint:gosec // revisions fit an int64 by protocol
			Position: eventstore.Position{Commit: success.GetPosition().GetCommitPosition(), Prepare: success.GetPosition().GetPreparePosition()},
		}
		return answer
	}
	failed := message.GetError()
	var detail string
	if details := failed.GetDetails(); len(details) > 0 {
		detail = details[0].GetTypeUrl()
		detail = detail[strings.LastIndexByte(detail, '.')+1:]
	}
	described := &refusal{code: codes.Code(failed.GetCode()), message: failed.GetMessage()} //nolint:gosec // a code
	answer.err = described
	switch detail { // codes differ between versions of servers, details don't
	case "WrongExpectedVersion":
		answer.err = errWrongVersion
	case "StreamDeleted":
		answer.err = eventstore.ErrStreamDeleted
	case "MaximumAppendSizeExceeded":
		answer.err = eventstore.ErrTooLarge
	case "AccessDenied":
		described.code = codes.PermissionDenied
	case "Timeout":
		described.code = codes.DeadlineExceeded
	case "BadRequest":
		described.code = codes.InvalidArgument
	default:
		if described.code == codes.OK {
			described.code = codes.Unknown
		}
	}
	return answer
}
