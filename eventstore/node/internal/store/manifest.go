package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"io/fs"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The manifest is the database's list of its files, a log of edits in blocks of chunks: checksum, length, type, data.
const (
	manifestBlock = 32 << 10
	chunkHeader   = 7
	// Types of chunks: a whole edit, or the first, a middle or the last part of one.
	chunkWhole = 1
	chunkFirst = 2
	chunkLast  = 4
)

// checkManifest refuses a database whose manifest is damaged. Pebble takes what it can't read there for an edit that a
// crash cut off, goes on with an older list, and removes the files that are not on it, events and all. Each edit is
// synced before the next is written: where another follows, nothing was cut off.
func checkManifest(files vfs.FS, dir string) (err error) {
	about, err := pebble.Peek(dir, files)
	if err != nil || !about.Exists {
		return ignoreMissing(err)
	}
	file, err := files.Open(about.ManifestFilename)
	if err != nil {
		return ignoreMissing(err)
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	edits, err := io.ReadAll(file) // about 1 MiB at most, as Pebble then begins a new one
	if err != nil {
		return err
	}
	at := 0
	for at < len(edits) {
		if left := manifestBlock - at%manifestBlock; left < chunkHeader {
			at += left // too small for a chunk
			continue
		}
		length, kind := chunkAt(edits, at)
		if kind == 0 {
			break
		}
		at += chunkHeader + length
	}
	for later := at + 1; later < len(edits); later++ {
		if _, kind := chunkAt(edits, later); kind == chunkWhole || kind == chunkFirst {
			return fmt.Errorf("%w: %s is damaged at byte %d", ErrCorrupt, about.ManifestFilename, at)
		}
	}
	return nil
}

// ignoreMissing: a new store has nothing yet, and one in use may change its files just now. Opening will tell.
func ignoreMissing(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

// chunkAt reads the chunk at an offset: the length of its data and its type, which is 0 where there is no valid one.
func chunkAt(edits []byte, at int) (length int, kind byte) {
	rest := edits[at:min(len(edits), at+manifestBlock-at%manifestBlock)]
	if len(rest) < chunkHeader {
		return 0, 0
	}
	length, kind = int(binary.LittleEndian.Uint16(rest[4:])), rest[6]
	if kind < chunkWhole || kind > chunkLast || chunkHeader+length > len(rest) {
		return 0, 0
	}
	sum := crc32.Checksum(rest[6:chunkHeader+length], castagnoli)
	const mask = 0xa282ead8 // so that the checksum of data with checksums in it is a good one
	if (sum>>15|sum<<17)+mask != binary.LittleEndian.Uint32(rest) {
		return 0, 0
	}
	return length, kind
}
