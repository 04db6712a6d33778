package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"
	"time"

	"google.golang.org/protobuf/encoding/protowire"

	"carillon/eventstore/node/internal/store"
)

// UUIDForm is how a client wants event ids.
type UUIDForm bool

// Forms of event ids.
const (
	StructuredUUID UUIDForm = false
	StringUUID     UUIDForm = true
)

// Event is an event as it is sent: with the link it was reached by, or with a link alone where that leads nowhere.
type Event struct {
	Event *store.Record
	Link  *store.Record
}

// Original is the record that the reader was looking at: the link where there is one.
func (e Event) Original() *store.Record {
	if e.Link != nil {
		return e.Link
	}
	return e.Event
}

const keyCreated = "created"

// AppendReadResponse appends a ReadResp that carries an event.
func AppendReadResponse(dst []byte, event Event, form UUIDForm) []byte {
	var prefixes [2]recordPrefix
	size := 0
	if event.Event != nil {
		prefixes[0].build(event.Event, form)
		size += 1 + protowire.SizeBytes(prefixes[0].total)
	}
	if event.Link != nil {
		prefixes[1].build(event.Link, form)
		size += 1 + protowire.SizeBytes(prefixes[1].total)
	}
	position := event.Original().Position
	size += 1 + protowire.SizeVarint(position)

	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size)) // #nosec G115 -- not negative
	if event.Event != nil {
		dst = prefixes[0].append(dst, 1, event.Event)
	}
	if event.Link != nil {
		dst = prefixes[1].append(dst, 2, event.Link)
	}
	dst = protowire.AppendTag(dst, 3, protowire.VarintType)
	return protowire.AppendVarint(dst, position)
}

// recordPrefix is the part of a RecordedEvent that is not stored as it is sent.
type recordPrefix struct {
	bytes [160]byte
	n     int
	total int // with the stored tail
}

func (p *recordPrefix) build(record *store.Record, form UUIDForm) {
	b := p.bytes[:0]
	id := record.ID()
	if form == StringUUID {
		b = append(b, 1<<3|2, 38, 2<<3|2, 36)
		b = appendUUIDString(b, id)
	} else {
		most, least := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
		inner := 2 + protowire.SizeVarint(most) + protowire.SizeVarint(least)
		b = append(b, 1<<3|2, byte(inner+2), 1<<3|2, byte(inner), 1<<3) // #nosec G115 -- at most 24
		b = protowire.AppendVarint(b, most)
		b = append(b, 2<<3)
		b = protowire.AppendVarint(b, least)
	}
	if revision := record.Revision(); revision > 0 {
		b = append(b, 3<<3)
		b = protowire.AppendVarint(b, revision)
	}
	b = append(b, 4<<3)
	b = protowire.AppendVarint(b, record.Position)
	b = append(b, 5<<3)
	b = protowire.AppendVarint(b, record.Position)

	var digits [20]byte
	created := strconv.AppendInt(digits[:0], record.Created(), 10)
	b = append(b, 6<<3|2, byte(2+len(keyCreated)+2+len(created)), 1<<3|2, byte(len(keyCreated)))
	b = append(b, keyCreated...)
	b = append(b, 2<<3|2, byte(len(created)))
	b = append(b, created...)
	p.n, p.total = len(b), len(b)+len(record.Tail())
}

func (p *recordPrefix) append(dst []byte, field protowire.Number, record *store.Record) []byte {
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(p.total)) // #nosec G115 -- not negative
	dst = append(dst, p.bytes[:p.n]...)
	return append(dst, record.Tail()...)
}

func appendUUIDString(dst []byte, id store.EventID) []byte {
	for i, end := range []int{4, 6, 8, 10, 16} {
		if i > 0 {
			dst = append(dst, '-')
		}
		start := [...]int{0, 4, 6, 8, 10}[i]
		dst = hex.AppendEncode(dst, id[start:end])
	}
	return dst
}

// Place is where a subscription can be resumed: after a position of $all, or a revision of a stream.
type Place struct {
	ofStream bool
	number   int64
}

// InAll is a position of $all; 0 is before there is anything.
func InAll(position uint64) Place { return Place{number: int64(position)} } // #nosec G115 -- far below

// InStream is a revision; -1 is before there is any.
func InStream(revision int64) Place { return Place{ofStream: true, number: revision} }

// Fields of ReadResp that tell how far a subscription is, and of what they hold.
const (
	fieldCaughtUp   protowire.Number = 8
	fieldFellBehind protowire.Number = 9

	fieldTimestamp      protowire.Number = 1
	fieldAtRevision     protowire.Number = 2
	fieldAtPosition     protowire.Number = 3
	fieldCommitPosition protowire.Number = 1
	fieldPrepare        protowire.Number = 2
	fieldSeconds        protowire.Number = 1
	fieldNanos          protowire.Number = 2
)

// AppendCaughtUp appends a ReadResp which says that a subscription has become live.
func AppendCaughtUp(dst []byte, now time.Time, at Place) []byte {
	return appendProgress(dst, fieldCaughtUp, now, at)
}

// AppendFellBehind appends a ReadResp which says that a subscription is no longer live.
func AppendFellBehind(dst []byte, now time.Time, at Place) []byte {
	return appendProgress(dst, fieldFellBehind, now, at)
}

func appendProgress(dst []byte, field protowire.Number, now time.Time, at Place) []byte {
	var room, inner [64]byte
	content, part := room[:0], inner[:0]
	part = protowire.AppendTag(part, fieldSeconds, protowire.VarintType)
	part = protowire.AppendVarint(part, uint64(now.Unix())) // #nosec G115 -- so it is encoded
	part = protowire.AppendTag(part, fieldNanos, protowire.VarintType)
	part = protowire.AppendVarint(part, uint64(now.Nanosecond())) // #nosec G115 -- not negative
	content = protowire.AppendTag(content, fieldTimestamp, protowire.BytesType)
	content = protowire.AppendBytes(content, part)
	switch number := uint64(at.number); { // #nosec G115 -- used where it is not negative
	case at.ofStream && at.number >= 0:
		content = protowire.AppendTag(content, fieldAtRevision, protowire.VarintType)
		content = protowire.AppendVarint(content, number)
	case !at.ofStream && at.number > 0:
		part = protowire.AppendTag(part[:0], fieldCommitPosition, protowire.VarintType)
		part = protowire.AppendVarint(part, number)
		part = protowire.AppendTag(part, fieldPrepare, protowire.VarintType)
		part = protowire.AppendVarint(part, number)
		content = protowire.AppendTag(content, fieldAtPosition, protowire.BytesType)
		content = protowire.AppendBytes(content, part)
	}
	dst = protowire.AppendTag(dst, field, protowire.BytesType)
	return protowire.AppendBytes(dst, content)
}

// AppendCheckpoint appends a ReadResp that tells a filtered subscription how far it has come.
func AppendCheckpoint(dst []byte, position uint64) []byte {
	return AppendCheckpointAt(dst, position, position)
}

// AppendCheckpointAt is AppendCheckpoint for a position whose two halves differ.
func AppendCheckpointAt(dst []byte, commit, prepare uint64) []byte {
	dst = protowire.AppendTag(dst, 3, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(2+protowire.SizeVarint(commit)+protowire.SizeVarint(prepare))) // #nosec G115 -- not negative
	dst = protowire.AppendTag(dst, 1, protowire.VarintType)
	dst = protowire.AppendVarint(dst, commit)
	dst = protowire.AppendTag(dst, 2, protowire.VarintType)
	return protowire.AppendVarint(dst, prepare)
}
