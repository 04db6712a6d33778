package node

import (
	"encoding/binary"
	"strconv"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"

	"carillon/eventstore/node/internal/store"
)

// System metadata keys, and the content types.
const (
	keyType         = "type"
	keyContentType  = "content-type"
	keyCreated      = "created"
	contentTypeJSON = "application/json"
	contentTypeBin  = "application/octet-stream"
)

// proposal is a message that carries an event to append.
type proposal interface {
	GetId() *shared.UUID
	GetMetadata() map[string]string
	GetCustomMetadata() []byte
	GetData() []byte
}

// contentOf returns what a client says of an event, which shares the message's memory.
func contentOf(message proposal) (store.EventContent, error) {
	id, err := eventID(message.GetId())
	if err != nil {
		return store.EventContent{}, err
	}
	for _, key := range []string{keyType, keyContentType} {
		if _, given := message.GetMetadata()[key]; !given {
			return store.EventContent{}, missingMetadata(key)
		}
	}
	return store.EventContent{
		ID:       id,
		Type:     message.GetMetadata()[keyType],
		JSON:     message.GetMetadata()[keyContentType] == contentTypeJSON,
		Metadata: message.GetCustomMetadata(),
		Data:     message.GetData(),
	}, nil
}

func eventID(id *shared.UUID) (store.EventID, error) {
	var parsed uuid.UUID
	switch value := id.GetValue().(type) {
	case *shared.UUID_Structured_:
		binary.BigEndian.PutUint64(parsed[:8], uint64(value.Structured.GetMostSignificantBits()))  // #nosec G115 -- bits
		binary.BigEndian.PutUint64(parsed[8:], uint64(value.Structured.GetLeastSignificantBits())) // #nosec G115 -- bits
	case *shared.UUID_String_:
		var err error
		if parsed, err = uuid.Parse(value.String_); err != nil {
			return store.EventID{}, invalid("malformed id: " + err.Error())
		}
	default:
		return store.EventID{}, invalid("an id is missing")
	}
	return store.EventID(parsed), nil
}

// expectedOf returns what a writer expects of a stream, by the fields of any of the messages that say so.
func expectedOf[Empty any](given bool, revision uint64, noStream, anyState, exists *Empty) store.Expected {
	switch {
	case !given:
		return store.Expected{}
	case noStream != nil:
		return store.NoStream()
	case anyState != nil:
		return store.Any()
	case exists != nil:
		return store.StreamExists()
	}
	return store.Revision(revision)
}

// resolvedEvent is an event as sent to clients: with the link it was reached by, or with a link alone if that leads
// nowhere.
type resolvedEvent struct {
	event *store.Record
	link  *store.Record
}

// message returns the answer that carries an event, and about how large that is.
func (e resolvedEvent) message(stringIDs bool) (response *streams.ReadResp, size int, err error) {
	read := &streams.ReadResp_ReadEvent{}
	if e.event != nil {
		size += e.event.Size()
		if read.Event, err = recordedEvent(e.event, stringIDs); err != nil {
			return nil, 0, err
		}
		read.Position = &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: e.event.Position}
	}
	if e.link != nil {
		size += e.link.Size()
		if read.Link, err = recordedEvent(e.link, stringIDs); err != nil {
			return nil, 0, err
		}
		read.Position = &streams.ReadResp_ReadEvent_CommitPosition{CommitPosition: e.link.Position}
	}
	return &streams.ReadResp{Content: &streams.ReadResp_Event{Event: read}}, size, nil
}

func recordedEvent(record *store.Record, stringID bool) (*streams.ReadResp_ReadEvent_RecordedEvent, error) {
	kept := record.Clone() // it is sent later
	stream, eventType, err := kept.Names()
	if err != nil {
		return nil, err
	}
	metadata, data, err := kept.Content()
	if err != nil {
		return nil, err
	}
	contentType := contentTypeBin
	if kept.IsJSON() {
		contentType = contentTypeJSON
	}
	return &streams.ReadResp_ReadEvent_RecordedEvent{
		Id:               uuidMessage(kept.ID(), stringID),
		StreamIdentifier: &shared.StreamIdentifier{StreamName: stream},
		StreamRevision:   kept.Revision(),
		PreparePosition:  kept.Position,
		CommitPosition:   kept.Position,
		Metadata: map[string]string{
			keyType:        string(eventType),
			keyCreated:     strconv.FormatInt(kept.Created(), 10),
			keyContentType: contentType,
		},
		CustomMetadata: metadata,
		Data:           data,
	}, nil
}

func uuidMessage(id store.EventID, asString bool) *shared.UUID {
	if asString {
		return &shared.UUID{Value: &shared.UUID_String_{String_: uuid.UUID(id).String()}}
	}
	return &shared.UUID{Value: &shared.UUID_Structured_{Structured: &shared.UUID_Structured{
		MostSignificantBits:  int64(binary.BigEndian.Uint64(id[:8])), // #nosec G115 -- bits
		LeastSignificantBits: int64(binary.BigEndian.Uint64(id[8:])), // #nosec G115 -- bits
	}}}
}
