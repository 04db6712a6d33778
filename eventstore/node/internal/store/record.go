package store

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"time"

	"google.golang.org/protobuf/encoding/protowire"
)

// EventID is an event's UUID in its usual byte order.
type EventID [16]byte

// A record is a fixed header and a tail:
//
//	0      format version
//	1      flags
//	2:10   revision
//	10:18  created, in ticks of 100 ns since the Unix epoch
//	18:34  event id
//	34:38  CRC-32C of the tail, the header before it, and the position
//	38:    tail
//
// The tail is the part of the protocol's RecordedEvent that never varies between readers: stream name, type, content
// type, metadata and data, in this order. It is encoded once, when the event is proposed, and copied from then on.
const (
	recordVersion       = 1
	headerLen           = 38
	offsetFlags         = 1
	offsetRevision      = 2
	offsetCreated       = 10
	offsetID            = 18
	offsetCRC           = 34
	flagJSON            = 1 << 0
	flagLink            = 1 << 1
	knownFlags          = flagJSON | flagLink
	ticksPerSecond      = 10_000_000
	ticksPerMicrosecond = 10
	nanosPerTick        = 100
	contentTypeJSON     = "application/json"
	contentTypeBin      = "application/octet-stream"
)

// Fields of RecordedEvent and of its map entries.
const (
	fieldStreamIdentifier protowire.Number = 2
	fieldStreamName       protowire.Number = 3
	fieldSystemMetadata   protowire.Number = 6
	fieldUserMetadata     protowire.Number = 7
	fieldData             protowire.Number = 8
	fieldMapKey           protowire.Number = 1
	fieldMapValue         protowire.Number = 2
)

// LinkType is the type of events that point to another one, as "revision@stream".
const LinkType = "$>"

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// Limits of an append, whichever way it comes.
const (
	MaxAppendBytes  = 1 << 20  // of the events' data
	MaxRequestBytes = 16 << 20 // with metadata and types
	MaxNameBytes    = 8 << 10  // of a stream or type
)

// Proposed is an event ready to be appended. It is encoded; the sequencer fills in the header.
type Proposed struct {
	id    EventID
	crc   uint32 // of the tail
	value []byte // header room, then tail
}

// Size returns the bytes that the event takes in the log.
func (p Proposed) Size() int { return len(p.value) }

// EventContent is the part of an event that the client sets.
type EventContent struct {
	ID       EventID
	Stream   string
	Type     string
	JSON     bool
	Metadata []byte
	Data     []byte
}

// Propose encodes an event. It copies everything, so the content may be reused afterwards.
func Propose(c EventContent) Proposed {
	contentType := contentTypeBin
	var flags byte
	if c.JSON {
		contentType, flags = contentTypeJSON, flagJSON
	}
	if c.Type == LinkType {
		flags |= flagLink
	}
	size := headerLen + len(c.Stream) + len(c.Type) + len(c.Metadata) + len(c.Data) + 96
	value := make([]byte, headerLen, size)
	value[0], value[offsetFlags] = recordVersion, flags
	copy(value[offsetID:], c.ID[:])

	value = protowire.AppendTag(value, fieldStreamIdentifier, protowire.BytesType)
	value = protowire.AppendVarint(value, uint64(1+protowire.SizeBytes(len(c.Stream))))
	value = protowire.AppendTag(value, fieldStreamName, protowire.BytesType)
	value = protowire.AppendString(value, c.Stream)
	value = appendMapEntry(value, "type", c.Type)
	value = appendMapEntry(value, "content-type", contentType)
	if len(c.Metadata) > 0 {
		value = protowire.AppendTag(value, fieldUserMetadata, protowire.BytesType)
		value = protowire.AppendBytes(value, c.Metadata)
	}
	if len(c.Data) > 0 {
		value = protowire.AppendTag(value, fieldData, protowire.BytesType)
		value = protowire.AppendBytes(value, c.Data)
	}
	return Proposed{id: c.ID, crc: crc32.Checksum(value[headerLen:], castagnoli), value: value}
}

func appendMapEntry(dst []byte, key, value string) []byte {
	dst = protowire.AppendTag(dst, fieldSystemMetadata, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(2+protowire.SizeBytes(len(key))+protowire.SizeBytes(len(value))))
	dst = protowire.AppendTag(dst, fieldMapKey, protowire.BytesType)
	dst = protowire.AppendString(dst, key)
	dst = protowire.AppendTag(dst, fieldMapValue, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(len(value)))
	return append(dst, value...)
}

// seal fills in the fields that the sequencer decides.
func (p Proposed) seal(position, revision uint64, created int64) {
	binary.BigEndian.PutUint64(p.value[offsetRevision:], revision)
	binary.BigEndian.PutUint64(p.value[offsetCreated:], uint64(created)) // #nosec G115 -- times after 1970
	binary.BigEndian.PutUint32(p.value[offsetCRC:], headerCRC(p.crc, p.value, position))
}

func headerCRC(tail uint32, value []byte, position uint64) uint32 {
	var at [8]byte
	binary.BigEndian.PutUint64(at[:], position)
	return crc32.Update(crc32.Update(tail, castagnoli, value[:offsetCRC]), castagnoli, at[:])
}

// Record is a stored event. Its bytes are valid as long as the one who hands it out says, and never to be changed.
type Record struct {
	Position uint64
	value    []byte
}

// parseRecord checks what the accessors rely on. It does not compute the checksum; see verify.
func parseRecord(position uint64, value []byte) (Record, error) {
	switch {
	case len(value) < headerLen:
		return Record{}, fmt.Errorf("%w: record at %d has %d bytes", ErrCorrupt, position, len(value))
	case value[0] != recordVersion:
		return Record{}, fmt.Errorf("%w: record at %d has format version %d", ErrCorrupt, position, value[0])
	case value[offsetFlags]&^knownFlags != 0:
		return Record{}, fmt.Errorf("%w: record at %d has flags %x", ErrCorrupt, position, value[offsetFlags])
	}
	return Record{Position: position, value: value}, nil
}

// verify reports whether the record is the one that was written at its position.
func (r Record) verify() error {
	sum := headerCRC(crc32.Checksum(r.value[headerLen:], castagnoli), r.value, r.Position)
	if sum != binary.BigEndian.Uint32(r.value[offsetCRC:]) {
		return fmt.Errorf("%w: record at %d fails its checksum", ErrCorrupt, r.Position)
	}
	return nil
}

// Revision is the event's number in its stream.
func (r Record) Revision() uint64 { return binary.BigEndian.Uint64(r.value[offsetRevision:]) }

// Created is when the event was sequenced, in ticks of 100 ns since the Unix epoch.
func (r Record) Created() int64 {
	return int64(binary.BigEndian.Uint64(r.value[offsetCreated:])) // #nosec G115 -- written from an int64
}

// CreatedAt is Created as a time, UTC.
func (r Record) CreatedAt() time.Time {
	ticks := r.Created()
	return time.Unix(ticks/ticksPerSecond, ticks%ticksPerSecond*nanosPerTick).UTC()
}

// ID is the event's id.
func (r Record) ID() EventID { return EventID(r.value[offsetID : offsetID+16]) }

// IsLink reports whether the event points to another one.
func (r Record) IsLink() bool { return r.value[offsetFlags]&flagLink != 0 }

// IsJSON reports whether the event's content type is JSON.
func (r Record) IsJSON() bool { return r.value[offsetFlags]&flagJSON != 0 }

// Size returns the bytes that the event takes in the log.
func (r Record) Size() int { return len(r.value) }

func (r Record) tail() []byte { return r.value[headerLen:] }

// Clone copies the record, so that it outlives what it was read from.
func (r Record) Clone() Record {
	return Record{Position: r.Position, value: append([]byte(nil), r.value...)}
}

// Names returns the stream's name and the event's type.
func (r Record) Names() (stream, eventType []byte, err error) {
	tail := r.tail()
	outer, n := consumeField(tail, fieldStreamIdentifier)
	if n < 0 {
		return nil, nil, r.malformed()
	}
	entry, m := consumeField(tail[n:], fieldSystemMetadata)
	if m < 0 {
		return nil, nil, r.malformed()
	}
	if stream, n = consumeField(outer, fieldStreamName); n != len(outer) {
		return nil, nil, r.malformed()
	}
	_, n = consumeField(entry, fieldMapKey)
	if n < 0 {
		return nil, nil, r.malformed()
	}
	if eventType, n = consumeField(entry[n:], fieldMapValue); n < 0 {
		return nil, nil, r.malformed()
	}
	return stream, eventType, nil
}

// Content returns the user's metadata and data; nil if they are empty.
func (r Record) Content() (metadata, data []byte, err error) {
	for rest := r.tail(); len(rest) > 0; {
		field, kind, n := protowire.ConsumeTag(rest)
		if n < 0 || kind != protowire.BytesType {
			return nil, nil, r.malformed()
		}
		content, m := protowire.ConsumeBytes(rest[n:])
		if m < 0 {
			return nil, nil, r.malformed()
		}
		switch field {
		case fieldUserMetadata:
			metadata = content
		case fieldData:
			data = content
		}
		rest = rest[n+m:]
	}
	return metadata, data, nil
}

func (r Record) malformed() error {
	return fmt.Errorf("%w: record at %d is malformed", ErrCorrupt, r.Position)
}

// consumeField reads the length-delimited field that must come first in b. It returns a negative length otherwise.
func consumeField(b []byte, want protowire.Number) ([]byte, int) {
	field, kind, n := protowire.ConsumeTag(b)
	if n < 0 || field != want || kind != protowire.BytesType {
		return nil, -1
	}
	content, m := protowire.ConsumeBytes(b[n:])
	if m < 0 {
		return nil, -1
	}
	return content, n + m
}
