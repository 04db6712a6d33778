package esdb

import (
	"encoding/binary"
	"strconv"
	"strings"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/types/known/durationpb"
	"google.golang.org/protobuf/types/known/emptypb"

	"carillon/eventstore"
)

// message returns an append as one message of BatchAppend. The id finds its answer.
func (p *proposal) message(id uuid.UUID, within time.Duration) *streams.BatchAppendReq {
	limit := &streams.BatchAppendReq_Options_Deadline{Deadline: durationpb.New(max(within, time.Millisecond))}
	options := &streams.BatchAppendReq_Options{StreamIdentifier: named(p.stream), DeadlineOption: limit}
	if p.expected >= 0 {
		at := &streams.BatchAppendReq_Options_StreamPosition{StreamPosition: uint64(p.expected)}
		options.ExpectedStreamPosition = at
	} else {
		options.ExpectedStreamPosition = &streams.BatchAppendReq_Options_NoStream{NoStream: &emptypb.Empty{}}
	}
	return &streams.BatchAppendReq{
		CorrelationId:    messageID(id),
		Options:          options,
		ProposedMessages: p.events,
		IsFinal:          true,
	}
}

// resultOf reads the answer to an append.
func (p *proposal) resultOf(message *streams.BatchAppendResp) (eventstore.Appended, error) {
	if success := message.GetSuccess(); success != nil {
		return eventstore.Appended{
			Revision: revisionOf(success.GetCurrentRevision()),
			Position: positionOf(success.GetPosition()),
		}, nil
	}
	failed := message.GetError()
	described := &refusal{code: codes.Code(failed.GetCode()), message: failed.GetMessage()} //nolint:gosec // a code
	var detail string
	if details := failed.GetDetails(); len(details) > 0 {
		detail = details[0].GetTypeUrl()
	}
	var err error = described
	switch detail[strings.LastIndexByte(detail, '.')+1:] { // codes differ between versions of servers, details don't
	case "WrongExpectedVersion":
		err = p.wrong()
	case "StreamDeleted":
		err = eventstore.ErrStreamDeleted
	case "MaximumAppendSizeExceeded":
		err = eventstore.ErrTooLarge
	case "AccessDenied":
		described.code = codes.PermissionDenied
	case "Timeout":
		described.code = codes.DeadlineExceeded
	case "BadRequest":
		described.code = codes.InvalidArgument
	}
	if described.code == codes.OK {
		described.code = codes.Unknown
	}
	return eventstore.Appended{}, err
}

func named(stream string) *shared.StreamIdentifier {
	return &shared.StreamIdentifier{StreamName: []byte(stream)}
}

func revisionOf(number uint64) eventstore.Revision {
	return eventstore.Revision(number) //nolint:gosec // revisions fit an int64 by protocol
}

func positionOf(message interface {
	GetCommitPosition() uint64
	GetPreparePosition() uint64
}) eventstore.Position {
	return eventstore.Position{Commit: message.GetCommitPosition(), Prepare: message.GetPreparePosition()}
}

func messageID(id uuid.UUID) *shared.UUID {
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{
		MostSignificantBits:  int64(binary.BigEndian.Uint64(id[:8])), //nolint:gosec // bits
		LeastSignificantBits: int64(binary.BigEndian.Uint64(id[8:])), //nolint:gosec // bits
	}}}
}

// idOf returns the id of a message; the zero id if it is malformed.
func idOf(id *shared.UUID) (parsed uuid.UUID) {
	if structured := id.GetStructured(); structured != nil {
		binary.BigEndian.PutUint64(parsed[:8], uint64(structured.GetMostSignificantBits()))  //nolint:gosec // bits
		binary.BigEndian.PutUint64(parsed[8:], uint64(structured.GetLeastSignificantBits())) //nolint:gosec // bits
		return parsed
	}
	parsed, _ = uuid.Parse(id.GetString_())
	return parsed
}

// ticks is the unit of times in the protocol.
const ticks = 100 * time.Nanosecond

// createdAt returns when this store recorded an event, which its metadata says in ticks; the epoch if it can't be read.
func createdAt(text string) time.Time {
	since, _ := strconv.ParseInt(text, 10, 64)
	return time.Unix(since/int64(time.Second/ticks), since%int64(time.Second/ticks)*int64(ticks)).UTC()
}
