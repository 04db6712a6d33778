package esdb

import (
	"slices"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/shared"
	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"
)

// received is all that the message of one event consists of, in one piece of memory.
type received struct {
	content  streams.ReadResp_Event
	event    streams.ReadResp_ReadEvent
	commit   streams.ReadResp_ReadEvent_CommitPosition
	recorded streams.ReadResp_ReadEvent_RecordedEvent
	id       shared.UUID
	idForm   shared.UUID_Structured_
	idBits   shared.UUID_Structured
	stream   shared.StreamIdentifier
}

// Fields as they begin on the wire: with their number and their type.
const (
	eventInResponse   = 1<<3 | uint64(protowire.BytesType)
	recordedInEvent   = 1<<3 | uint64(protowire.BytesType)
	commitInEvent     = 3<<3 | uint64(protowire.VarintType)
	idInRecorded      = 1<<3 | uint64(protowire.BytesType)
	streamInRecorded  = 2<<3 | uint64(protowire.BytesType)
	revisionRecorded  = 3<<3 | uint64(protowire.VarintType)
	prepareRecorded   = 4<<3 | uint64(protowire.VarintType)
	commitRecorded    = 5<<3 | uint64(protowire.VarintType)
	systemInRecorded  = 6<<3 | uint64(protowire.BytesType)
	customInRecorded  = 7<<3 | uint64(protowire.BytesType)
	dataInRecorded    = 8<<3 | uint64(protowire.BytesType)
	structuredInID    = 1<<3 | uint64(protowire.BytesType)
	mostInStructured  = 1<<3 | uint64(protowire.VarintType)
	leastInStructured = 2<<3 | uint64(protowire.VarintType)
	nameInStream      = 3<<3 | uint64(protowire.BytesType)
	keyInEntry        = 1<<3 | uint64(protowire.BytesType)
	valueInEntry      = 2<<3 | uint64(protowire.BytesType)
)

// holdsEvent reports whether a ReadResp is about an event, and not one of its other forms.
func holdsEvent(message mem.BufferSlice) bool {
	return len(message) > 0 && message[0].Len() > 0 && uint64(message[0].ReadOnlyData()[0]) == eventInResponse
}

// decodeEvent decodes a ReadResp that holds an event. It returns nil where that has anything but what a plain event
// has, which is then the generated code's to read or to refuse. The result refers to the message's memory.
func decodeEvent(message []byte) *streams.ReadResp_Event {
	response := fields{rest: message}
	if !response.next() || response.tag != eventInResponse || len(response.rest) > 0 {
		return nil
	}
	r := &received{}
	r.content.Event = &r.event
	event := fields{rest: response.content}
	for event.next() {
		switch {
		case event.tag == recordedInEvent && r.event.Event == nil:
			r.event.Event = &r.recorded
			if !r.decodeRecorded(event.content) {
				return nil
			}
		case event.tag == commitInEvent:
			r.event.Position, r.commit.CommitPosition = &r.commit, event.value
		default:
			return nil
		}
	}
	if event.malformed {
		return nil
	}
	return &r.content
}

func (r *received) decodeRecorded(message []byte) bool {
	known := true
	recorded := fields{rest: message}
	for known && recorded.next() {
		switch recorded.tag {
		case idInRecorded:
			known = r.decodeID(recorded.content)
		case streamInRecorded:
			known = r.decodeStream(recorded.content)
		case revisionRecorded:
			r.recorded.StreamRevision = recorded.value
		case prepareRecorded:
			r.recorded.PreparePosition = recorded.value
		case commitRecorded:
			r.recorded.CommitPosition = recorded.value
		case systemInRecorded:
			known = r.decodeSystemMetadata(recorded.content)
		case customInRecorded:
			r.recorded.CustomMetadata = slices.Clip(recorded.content)
		case dataInRecorded:
			r.recorded.Data = slices.Clip(recorded.content)
		default:
			known = false
		}
	}
	return known && !recorded.malformed
}

func (r *received) decodeID(message []byte) bool {
	form := fields{rest: message}
	if r.recorded.Id != nil || !form.next() || form.tag != structuredInID || len(form.rest) > 0 {
		return false
	}
	r.recorded.Id, r.id.Value, r.idForm.Structured = &r.id, &r.idForm, &r.idBits
	bits := fields{rest: form.content}
	for bits.next() {
		switch bits.tag {
		case mostInStructured:
			r.idBits.MostSignificantBits = int64(bits.value) // #nosec G115 -- bits
		case leastInStructured:
			r.idBits.LeastSignificantBits = int64(bits.value) // #nosec G115 -- bits
		default:
			return false
		}
	}
	return !bits.malformed
}

func (r *received) decodeStream(message []byte) bool {
	stream := fields{rest: message}
	if r.recorded.StreamIdentifier != nil || !stream.next() || stream.tag != nameInStream || len(stream.rest) > 0 {
		return false
	}
	r.recorded.StreamIdentifier = &r.stream
	r.stream.StreamName = slices.Clip(stream.content)
	return true
}

func (r *received) decodeSystemMetadata(message []byte) bool {
	var key, value []byte
	entry := fields{rest: message}
	for entry.next() {
		switch entry.tag {
		case keyInEntry:
			key = entry.content
		case valueInEntry:
			value = entry.content
		default:
			return false
		}
	}
	if entry.malformed || !utf8.Valid(key) || !utf8.Valid(value) {
		return false
	}
	if r.recorded.Metadata == nil {
		r.recorded.Metadata = make(map[string]string, systemProperties)
	}
	r.recorded.Metadata[frequent(key)] = frequent(value)
	return true
}

// systemProperties is how many properties servers give each event.
const systemProperties = 3

// frequent makes a string of what nearly every event says, without taking memory for it.
func frequent(text []byte) string {
	switch string(text) {
	case "type":
		return "type"
	case "created":
		return "created"
	case "content-type":
		return "content-type"
	case "application/json":
		return "application/json"
	}
	return string(text)
}

// fields goes through the fields of a message, as long as they are numbers or pieces of bytes.
type fields struct {
	rest      []byte
	tag       uint64
	content   []byte
	value     uint64
	malformed bool
}

func (f *fields) next() bool {
	if len(f.rest) == 0 {
		return false
	}
	tag, n := protowire.ConsumeVarint(f.rest)
	if n < 0 {
		f.malformed = true
		return false
	}
	f.tag, f.rest = tag, f.rest[n:]
	switch protowire.Type(tag & 7) { // #nosec G115 -- three bits
	case protowire.BytesType:
		f.content, n = protowire.ConsumeBytes(f.rest)
	case protowire.VarintType:
		f.value, n = protowire.ConsumeVarint(f.rest)
	default:
		n = -1
	}
	if n < 0 {
		f.malformed = true
		return false
	}
	f.rest = f.rest[n:]
	return true
}
