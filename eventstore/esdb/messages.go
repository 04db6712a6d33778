package esdb

import (
	"encoding/binary"
	"errors"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore"
)

var errNoText = errors.New("a type or a stream's name is not text in UTF-8")

// batchRequest returns an append that is one message of BatchAppend. The two halves of its correlation id tell its answer
// from others.
func batchRequest(
	most, least uint64, stream string, expected eventstore.Revision, within time.Duration, events []proposal,
) (*streams.BatchAppendReq, error) {
	options := &streams.BatchAppendReq_Options{
		StreamIdentifier: &shared.StreamIdentifier{StreamName: []byte(stream)},
		DeadlineOption:   &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(max(within, time.Millisecond))},
	}
	if expected >= 0 {
		options.ExpectedStreamPosition = &streams.BatchAppendReq_Options_StreamPosition{StreamPosition: uint64(expected)}
	} else {
		options.ExpectedStreamPosition = &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}}
	}
	list := make([]*streams.BatchAppendReq_ProposedMessage, len(events))
	for i := range events {
		p := &events[i]
		if !utf8.ValidString(p.Type) {
			return nil, errNoText
		}
		list[i] = &streams.BatchAppendReq_ProposedMessage{
			Id: messageID(bitsOf(p.ID)), Metadata: p.system(), CustomMetadata: p.Metadata, Data: p.Data,
		}
	}
	if !utf8.ValidString(stream) {
		return nil, errNoText
	}
	return &streams.BatchAppendReq{CorrelationId: messageID(most, least), Options: options, ProposedMessages: list, IsFinal: true}, nil
}

// system returns the system metadata of an event.
func (p *proposal) system() map[string]string {
	return map[string]string{"type": p.Type, "content-type": p.contentType}
}

func messageID(most, least uint64) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{
		MostSignificantBits: int64(most), LeastSignificantBits: int64(least), //nolint:gosec // bits
	}}}
}

func bitsOf(id uuid.UUID) (most, least uint64) {
	return binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
}

// idOf returns the id of a message; the zero id if it is malformed.
func idOf(id *shared.UUID) (parsed uuid.UUID) {
	if structured := id.GetStructured(); structured != nil {
		binary.BigEndian.PutUint64(parsed[:8], uint64(structured.GetMostSignificantBits()))  //nolint:gosec // bits
		binary.BigEndian.PutUint64(parsed[8:], uint64(structured.GetLeastSignificantBits())) //nolint:gosec // bits
		return parsed
	}
	parsed, err := uuid.Parse(id.GetString_())
	if err != nil {
		return uuid.Nil
	}
	return parsed
}

// batchAnswer is the answer to one append of a BatchAppend call.
type batchAnswer struct {
	most, id uint64 // the correlation id
	appended eventstore.Appended
	err      error
}

// answerOf reads an answer.
func answerOf(message *streams.BatchAppendResp) batchAnswer {
	var answer batchAnswer
	answer.most, answer.id = bitsOf(idOf(message.GetCorrelationId()))
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
