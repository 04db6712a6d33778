package store

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"strings"

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

// checkFiles refuses a directory whose files can't be those of a sound database, before anything is written there. It
// returns the number of the first log that may hold what is not in tables; exists is false where there is no database.
func checkFiles(files vfs.FS, dir string) (minLog uint64, exists bool, err error) {
	names, err := files.List(dir)
	if err != nil {
		return 0, false, ignoreMissing(err)
	}
	if err := checkMarkers(dir, names); err != nil {
		return 0, false, err
	}
	return checkManifest(files, dir)
}

const (
	manifestPrefix = "MANIFEST-"
	manifestMarker = "marker.manifest."
	formatMarker   = "marker.format-version."
)

// MissingMarkerError says that a database lacks an empty file that its others are found by. Some programs that copy
// directories leave empty files out. Without it Pebble begins a new database and removes the tables of the old one.
type MissingMarkerError struct {
	Dir string
	// Create are the files to make, empty.
	Create []string
}

// Unwrap makes it ErrCorrupt.
func (e *MissingMarkerError) Unwrap() error { return ErrCorrupt }

func (e *MissingMarkerError) Error() string {
	if len(e.Create) == 0 {
		return fmt.Sprintf("%s holds tables or logs of an event store, but no manifest that says which belong to it: "+
			"copy the directory again, or restore a backup. Nothing was changed", e.Dir)
	}
	return fmt.Sprintf("%s holds an event store, but an empty file is missing that says so: a copy may have left empty "+
		"files out. Copy them, too; or make them: (cd '%s' && touch %s). Nothing was changed",
		e.Dir, e.Dir, strings.Join(e.Create, " "))
}

// checkMarkers refuses a directory that holds a database without its markers.
func checkMarkers(dir string, names []string) error {
	var marked, formatted, tables, logs bool
	newest, manifests := uint64(0), 0
	for _, name := range names {
		switch {
		case strings.HasPrefix(name, manifestMarker):
			marked = true
		case strings.HasPrefix(name, formatMarker):
			formatted = true
		case strings.HasSuffix(name, ".sst"), strings.HasSuffix(name, ".blob"):
			tables = true
		default:
			if _, ok := logNumber(name); ok {
				logs = true
			}
			if number, ok := manifestNumber(name); ok {
				manifests++
				newest = max(newest, number)
			}
		}
	}
	missing := &MissingMarkerError{Dir: dir}
	switch {
	case marked && (formatted || !tables):
		return nil // Pebble marks the format last when it makes a database
	case !marked && !tables && !logs && (manifests == 0 || manifests == 1 && newest <= firstManifest):
		return nil // nothing yet, or the very beginning of a creation that was cut off
	case manifests == 0:
		return missing
	}
	if !marked {
		missing.Create = append(missing.Create, fmt.Sprintf("%s000001.%s%06d", manifestMarker, manifestPrefix, newest))
	}
	if !formatted {
		missing.Create = append(missing.Create, fmt.Sprintf("%s000001.%03d", formatMarker, pebble.FormatNewest))
	}
	return missing
}

// firstManifest is the number of a new database's manifest.
const firstManifest = 1

// checkManifest refuses a database whose manifest is damaged. Pebble takes what it can't read there for an edit that a
// crash cut off, goes on with an older list, and removes the files that are not on it, events and all. Each edit is
// synced before the next is written: where another follows, nothing was cut off.
func checkManifest(files vfs.FS, dir string) (minLog uint64, exists bool, err error) {
	about, err := pebble.Peek(dir, files)
	if err != nil || !about.Exists {
		return 0, false, ignoreMissing(err)
	}
	name := about.ManifestFilename
	edits, err := readFile(files, name) // about 1 MiB at most, as Pebble then begins a new one
	if errors.Is(err, fs.ErrNotExist) {
		return 0, false, fmt.Errorf("%w: %s is missing, the list of the database's files. %s", ErrCorrupt, name, restoreAdvice)
	}
	if err != nil {
		return 0, false, err
	}
	said, known, err := readAcknowledgement(files, dir)
	if err != nil {
		return 0, false, err
	}
	if number, _ := manifestNumber(name); known && number == said.manifest && uint64(len(edits)) < said.manifestLength {
		return 0, false, fmt.Errorf("%w: %s is cut off: it has %d bytes and had %d. %s",
			ErrCorrupt, name, len(edits), said.manifestLength, restoreAdvice)
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
		if kind == chunkWhole || kind == chunkFirst {
			minLog = max(minLog, minLogOf(edits[at+chunkHeader:at+chunkHeader+length]))
		}
		at += chunkHeader + length
	}
	if at == 0 {
		return 0, false, fmt.Errorf("%w: %s is empty or damaged at its beginning. %s", ErrCorrupt, name, restoreAdvice)
	}
	for later := at + 1; later < len(edits); later++ {
		if _, kind := chunkAt(edits, later); kind == chunkWhole || kind == chunkFirst {
			return 0, false, fmt.Errorf("%w: %s is damaged at byte %d. %s", ErrCorrupt, name, at, restoreAdvice)
		}
	}
	return minLog, true, nil
}

const restoreAdvice = "Nothing was changed. Keep the directory as it is, and restore a backup " +
	"(\"carillon eventstore restore\"), or copy the directory again from where it is whole"

// minLogOf reads the first log that is still needed from an edit, which says it before it lists files; 0 where it says
// nothing about it.
func minLogOf(edit []byte) uint64 {
	const tagComparator, tagMinLog = 1, 2
	tag, n := binary.Uvarint(edit)
	if n > 0 && tag == tagComparator {
		_, rest, ok := cutString(edit[n:])
		if !ok {
			return 0
		}
		edit = rest
		tag, n = binary.Uvarint(edit)
	}
	if n <= 0 || tag != tagMinLog {
		return 0
	}
	number, m := binary.Uvarint(edit[n:])
	if m <= 0 {
		return 0
	}
	return number
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
	if maskedCRC(rest[6:chunkHeader+length]) != binary.LittleEndian.Uint32(rest) {
		return 0, 0
	}
	return length, kind
}
