package store

import (
	"encoding/binary"
	"hash/crc32"
	"math"
)

// The database writes a batch to its log before it applies it. A log is a file of blocks; a batch is one chunk of a
// block, or several of blocks that follow each other. A chunk is a checksum, the length of its data, its kind, the low
// half of the log's number, in the newer form how much of the log had been synced by then, and the data. Files of old
// logs are written over, so the end of one shows what an older log left there, which has another number.
const (
	logBlock        = 32 << 10
	logChunkHeader  = 11
	logSyncedHeader = 19

	kindsOldest     = 5 // kinds of chunks without the synced length: whole, first, middle, last
	kindsWithSynced = 9
	kindsEnd        = 13

	// crcMask is added so that the checksum of data with checksums in it is a good one.
	crcMask = 0xa282ead8
)

type chunkPart uint8

const (
	partWhole chunkPart = iota
	partFirst
	partMiddle
	partLast
)

type logChunk struct {
	at, end int
	part    chunkPart
	synced  int // how much of the log was synced when the chunk was written; 0 where it doesn't say
	data    []byte
}

// shapeAt reads the header of a chunk, and checks that the chunk fits in its block and belongs to the log.
func shapeAt(log []byte, number uint64, at int) (c logChunk, ok bool) {
	rest := log[at:min(len(log), at+logBlock-at%logBlock)]
	if len(rest) < logChunkHeader || rest[6] < kindsOldest || rest[6] >= kindsEnd {
		return c, false
	}
	header, kind := logChunkHeader, rest[6]-kindsOldest
	if rest[6] >= kindsWithSynced {
		header, kind = logSyncedHeader, rest[6]-kindsWithSynced
	}
	length := int(binary.LittleEndian.Uint16(rest[4:]))
	if header+length > len(rest) || uint64(binary.LittleEndian.Uint32(rest[7:])) != number&math.MaxUint32 {
		return c, false
	}
	if header == logSyncedHeader {
		c.synced = int(min(binary.LittleEndian.Uint64(rest[logChunkHeader:]), 1<<40)) // #nosec G115 -- bounded
	}
	c.at, c.end, c.part, c.data = at, at+header+length, chunkPart(kind), rest[header:header+length]
	return c, true
}

// chunkOf reads the chunk at an offset of a log, where there is a sound one.
func chunkOf(log []byte, number uint64, at int) (logChunk, bool) {
	c, ok := shapeAt(log, number, at)
	return c, ok && maskedCRC(log[at+6:c.end]) == binary.LittleEndian.Uint32(log[at:])
}

func maskedCRC(data []byte) uint32 {
	sum := crc32.Checksum(data, castagnoli)
	return (sum>>15 | sum<<17) + crcMask
}

// walScan is what one log holds.
type walScan struct {
	batches [][]byte // whole ones, up to the first place that can't be read
	end     int      // where the last of them ends
	torn    int      // the place that can't be read; the log's length where there is none
	// ended says that the log was closed in order, or that its file just ends.
	ended bool
	// synced says that what can't be read had been synced: a later chunk tells.
	synced bool
	// later are whole batches after it.
	later [][]byte
	// partial are the batches in between whose bytes look like one, but fail the checksum.
	partial [][]byte
	// follows says that something sound follows, whole batches or parts.
	follows bool
}

// scanWAL reads a log. It goes on after what it can't read, to tell a write that a crash cut off from damage.
func scanWAL(log []byte, number uint64) (s walScan) {
	at := 0
	for {
		at = skipPadding(log, at)
		batch, end, broken, ok := batchAt(log, number, at, chunkOf)
		if !ok {
			s.torn = broken
			break
		}
		s.batches = append(s.batches, batch)
		s.end, at = end, end
	}
	s.ended = s.torn >= len(log) || closedAt(log, number, s.torn)
	s.scanLater(log, number)
	return s
}

// skipPadding returns where the next chunk begins: what is left of a block may be too small for one.
func skipPadding(log []byte, at int) int {
	left := logBlock - at%logBlock
	if left >= logSyncedHeader || at >= len(log) {
		return at
	}
	for _, b := range log[at:min(len(log), at+left)] {
		if b != 0 {
			return at
		}
	}
	return at + left
}

// closedAt reports whether a log was closed in order there: the trailer has the number of the next log.
func closedAt(log []byte, number uint64, at int) bool {
	c, ok := shapeAt(log, number+1, at)
	return ok && len(c.data) == 0
}

// batchAt joins the chunks of the batch that begins at an offset. broken is the chunk that is not sound.
func batchAt(
	log []byte, number uint64, at int, read func([]byte, uint64, int) (logChunk, bool),
) (batch []byte, end, broken int, ok bool) {
	for first := true; ; first = false {
		if at >= len(log) {
			return nil, 0, len(log), false
		}
		c, ok := read(log, number, at)
		if begins := c.part == partWhole || c.part == partFirst; !ok || begins != first {
			return nil, 0, at, false
		}
		batch = append(batch, c.data...)
		if c.part == partWhole || c.part == partLast {
			return batch, c.end, 0, true
		}
		at = skipPadding(log, c.end)
	}
}

// scanLater looks for whatever is sound after the torn place.
func (s *walScan) scanLater(log []byte, number uint64) {
	from := s.end
	for at := s.torn + 1; at < len(log); {
		c, ok := chunkOf(log, number, at)
		if !ok {
			at++
			continue
		}
		s.follows = true
		s.synced = s.synced || c.synced > s.torn
		if from >= 0 {
			s.salvage(log[:at], number, from)
		}
		batch, end, _, whole := batchAt(log, number, at, chunkOf)
		if whole {
			s.later = append(s.later, batch)
			at, from = skipPadding(log, end), end
			continue
		}
		at, from = c.end, -1
	}
	if !s.follows {
		s.salvage(log, number, s.end)
	}
}

// salvage reads what lies between two sound places as if its checksums were right: what is in it checks itself.
func (s *walScan) salvage(log []byte, number uint64, at int) {
	for at = skipPadding(log, at); at < len(log); at = skipPadding(log, at) {
		batch, end, _, ok := batchAt(log, number, at, shapeAt)
		if !ok {
			return
		}
		if at >= s.end && len(batch) > batchHeader {
			s.partial = append(s.partial, batch)
		}
		at = end
	}
}

// Kinds of a batch's entries, of those that the store writes.
const (
	batchHeader = 12
	entryDelete = 0
	entrySet    = 1
)

// eachSet calls visit for what a batch sets. It ends early where the bytes make no sense.
func eachSet(batch []byte, visit func(key, value []byte)) {
	if len(batch) < batchHeader {
		return
	}
	rest := batch[batchHeader:]
	for len(rest) > 0 {
		kind := rest[0]
		key, after, ok := cutString(rest[1:])
		if !ok || kind > entrySet {
			return
		}
		rest = after
		if kind == entrySet {
			value, after, ok := cutString(rest)
			if !ok {
				return
			}
			visit(key, value)
			rest = after
		}
	}
}

func cutString(b []byte) (s, rest []byte, ok bool) {
	length, n := binary.Uvarint(b)
	if n <= 0 || length > uint64(len(b)-n) { // #nosec G115 -- n is at most len(b)
		return nil, nil, false
	}
	return b[n : n+int(length)], b[n+int(length):], true // #nosec G115 -- at most len(b)
}

// eachRecord calls visit for the events that a batch adds to the log, and those whose bytes don't check.
func eachRecord(batch []byte, visit func(record Record, sound bool)) {
	eachSet(batch, func(key, value []byte) {
		position, err := parseLogKey(key)
		if err != nil {
			return
		}
		if record, err := parseRecord(position, value); err == nil {
			visit(record, record.verify() == nil)
		}
	})
}
