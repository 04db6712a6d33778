package wire

import (
	"encoding/binary"
	"encoding/hex"
	"strconv"

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
	// Retries is how often a persistent subscription has sent the event before; nil elsewhere.
	Retries *int32
}

// Original is the record that the reader was looking at: the link where there is one.
func (e Event) Original() *store.Record {
	if e.Link != nil {
		return e.Link
	}
	return e.Event
}

const (
	fieldRetryCount protowire.Number = 5
	keyCreated                       = "created"
)

// AppendReadResponse appends a ReadResp that carries an event. Streams and persistent subscriptions encode it alike.
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
	if event.Retries != nil {
		size += 1 + protowire.SizeVarint(uint64(*event.Retries)) // #nosec G115 -- sign-extended, as protobuf does
	}

	dst = protowire.AppendTag(dst, 1, protowire.BytesType)
	dst = protowire.AppendVarint(dst, uint64(size)) // #nosec G115 -- not negative
	if event.Event != nil {
		dst = prefixes[0].append(dst, 1, event.Event)
	}
	if event.Link != nil {
		dst = prefixes[1].append(dst, 2, event.Link)
	}
	dst = protowire.AppendTag(dst, 3, protowire.VarintType)
	dst = protowire.AppendVarint(dst, position)
	if event.Retries != nil {
		dst = protowire.AppendTag(dst, fieldRetryCount, protowire.VarintType)
		dst = protowire.AppendVarint(dst, uint64(*event.Retries)) // #nosec G115 -- as above
	}
	return dst
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
