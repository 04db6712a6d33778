package store

import (
	"encoding/binary"
	"fmt"
)

// Key prefixes. They order the key space; see the package documentation.
const (
	prefixHead  = 'h'
	prefixIndex = 'i'
	prefixLog   = 'l'
	prefixMeta  = 'm'
)

const (
	logKeyLen     = 1 + 8
	indexKeyLen   = 1 + 8 + 8
	indexValueLen = 8 + 16
)

// headsUpper is above all keys of stream heads.
var headsUpper = []byte{prefixHead + 1}

// nextPositionKey holds a lower bound for the next position, written when the last record may be removed.
var nextPositionKey = []byte{prefixMeta, 'n', 'e', 'x', 't'}

// erasedKey holds how many bytes of the log were removed, in all.
var erasedKey = []byte{prefixMeta, 'e', 'r', 'a', 's', 'e', 'd'}

func logKey(dst []byte, position uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, prefixLog), position)
}

func parseLogKey(key []byte) (position uint64, err error) {
	if len(key) != logKeyLen || key[0] != prefixLog {
		return 0, fmt.Errorf("%w: log key %x", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[1:]), nil
}

func indexKey(dst []byte, streamID, revision uint64) []byte {
	dst = binary.BigEndian.AppendUint64(append(dst, prefixIndex), streamID)
	return binary.BigEndian.AppendUint64(dst, revision)
}

func parseIndexKey(key []byte) (streamID, revision uint64, err error) {
	if len(key) != indexKeyLen || key[0] != prefixIndex {
		return 0, 0, fmt.Errorf("%w: index key %x", ErrCorrupt, key)
	}
	return binary.BigEndian.Uint64(key[1:]), binary.BigEndian.Uint64(key[9:]), nil
}

func indexValue(dst []byte, position uint64, id EventID) []byte {
	return append(binary.BigEndian.AppendUint64(dst, position), id[:]...)
}

func parseIndexValue(value []byte) (position uint64, id EventID, err error) {
	if len(value) != indexValueLen {
		return 0, id, fmt.Errorf("%w: index entry of %d bytes", ErrCorrupt, len(value))
	}
	copy(id[:], value[8:])
	return binary.BigEndian.Uint64(value), id, nil
}

func headKey(dst []byte, stream string) []byte {
	return append(append(dst, prefixHead), stream...)
}
