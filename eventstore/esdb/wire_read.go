package esdb

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/mem"
	"google.golang.org/protobuf/encoding/protowire"

	"carillon/eventstore"
)

// told is a message of a read or of a subscription.
type told struct {
	entry *Entry            // an event
	other *streams.ReadResp // anything else
}

// toldBy takes over what the generated code has decoded.
func toldBy(response *streams.ReadResp) told {
	if event := response.GetEvent().GetEvent(); event != nil {
		entry := entryOf(event)
		return told{entry: &entry}
	}
	return told{other: response}
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
func decodeEvent(message []byte) *Entry {
	response := fields{rest: message}
	if !response.next() || response.tag != eventInResponse || len(response.rest) > 0 {
		return nil
	}
	var r *received
	event := fields{rest: response.content}
	for event.next() {
		switch {
		case event.tag == recordedInEvent && r == nil:
			r = &received{}
			if !r.decode(event.content) {
				return nil
			}
		case event.tag == commitInEvent: // the recorded event's own is that of the log
		default:
			return nil
		}
	}
	if event.malformed || r == nil {
		return nil
	}
	r.Created = eventstore.FirstCreated(r.Metadata, r.here)
	return &r.Entry
}

// received is an event while it is decoded.
type received struct {
	Entry

	hasID, hasStream bool
}

func (r *received) decode(message []byte) bool {
	r.here = time.Unix(0, 0).UTC()
	known := true
	recorded := fields{rest: message}
	for known && recorded.next() {
		switch recorded.tag {
		case idInRecorded:
			known = r.decodeID(recorded.content)
		case streamInRecorded:
			known = r.decodeStream(recorded.content)
		case revisionRecorded:
			r.Revision = eventstore.Revision(recorded.value) //nolint:gosec // revisions fit an int64 by protocol
		case prepareRecorded:
			r.Position.Prepare = recorded.value
		case commitRecorded:
			r.Position.Commit = recorded.value
		case systemInRecorded:
			known = r.decodeSystemMetadata(recorded.content)
		case customInRecorded:
			r.Metadata = slices.Clip(recorded.content)
		case dataInRecorded:
			r.Data = slices.Clip(recorded.content)
		default:
			known = false
		}
	}
	return known && !recorded.malformed
}

func (r *received) decodeID(message []byte) bool {
	form := fields{rest: message}
	if r.hasID || !form.next() || form.tag != structuredInID || len(form.rest) > 0 {
		return false
	}
	r.hasID = true
	var most, least uint64
	bits := fields{rest: form.content}
	for bits.next() {
		switch bits.tag {
		case mostInStructured:
			most = bits.value
		case leastInStructured:
			least = bits.value
		default:
			return false
		}
	}
	r.ID = uuidOf(most, least)
	return !bits.malformed
}

func (r *received) decodeStream(message []byte) bool {
	stream := fields{rest: message}
	if r.hasStream || !stream.next() || stream.tag != nameInStream || len(stream.rest) > 0 {
		return false
	}
	r.hasStream, r.Stream = true, string(stream.content)
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
	switch string(key) {
	case "type":
		r.Type = string(value)
	case "created":
		r.here = recordedAt(value)
	case "content-type":
		r.JSON = string(value) == contentJSON
	}
	return true
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
