package store

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/record"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/wal"
)

// readableLog is how far Pebble can read a log.
type readableLog struct {
	path string
	end  int64 // of the last usable batch
	// ended means that the log was closed in order, or that its file just ends; continues that it has the next event.
	ended, continues bool
	gap              bool // events are missing before what follows the end
}

// readLog reads a log whose next event is the one at next.
func readLog(log wal.LogicalLog, next *uint64) (read readableLog, err error) {
	_, path := log.SegmentLocation(0)
	read.path = filepath.Clean(path)
	reader := log.OpenForRead()
	defer func() { err = errors.Join(err, reader.Close()) }()
	for {
		content, at, err := reader.NextRecord()
		read.end = at.Physical
		switch {
		case errors.Is(err, io.EOF):
			read.ended = true
			return read, nil
		case unreadable(err):
			return read, nil
		case err != nil:
			return read, err
		}
		batch, err := io.ReadAll(content)
		if err != nil {
			return read, err
		}
		eachRecord(batch, func(record Record) {
			switch {
			case record.Position == *next:
				*next += uint64(len(record.value))
				read.continues = true
			case record.Position > *next:
				read.gap = true
			}
		})
		if read.gap {
			return read, nil
		}
	}
}

func unreadable(err error) bool {
	for _, one := range []error{record.ErrUnexpectedEOF, record.ErrInvalidChunk, record.ErrZeroedChunk,
		pebble.ErrCorruption} {
		if errors.Is(err, one) {
			return true
		}
	}
	return false
}

// cut decides where logs must end so that the events in them follow the one before next without a gap. An unreadable
// end of a log is damage unless the next log continues there.
func (e *DamagedError) cut(logs wal.Logs, next uint64) error {
	damaged := false
	for _, log := range logs {
		read, err := readLog(log, &next)
		switch {
		case err != nil:
			return err
		case damaged && !read.continues:
			read.end = 0
		case read.gap || !read.ended:
			damaged = true
			e.File, e.At = read.path, read.end
		default:
			damaged = false
			continue
		}
		e.cuts[read.path] = read.end
	}
	if !damaged {
		e.File, e.At = "", 0
	}
	return nil
}

// list names the events behind the cuts that the database lacks.
func (e *DamagedError) list(files vfs.FS, beside *Store) (err error) {
	seen := losses{streams: map[string][]uint64{}, ends: map[uint64]uint64{}}
	for path, end := range e.cuts {
		content, err := readFile(files, path)
		if err != nil {
			return err
		}
		eachRecord(content[min(end, int64(len(content))):], func(record Record) {
			if name, _, err := record.Names(); err == nil && record.Position > e.Last {
				seen.streams[string(name)] = append(seen.streams[string(name)], record.Revision())
				seen.ends[record.Position] = record.Position + uint64(len(record.value))
			}
		})
	}
	e.Unnamed = seen.unnamed(beside.next, e.Acknowledged)
	e.Lost, err = seen.list(beside.db)
	return err
}

// eachRecord calls visit for the whole records that bytes of a log hold. They are found by their keys, which the
// length of the record follows, and are whole if they pass their checksums.
func eachRecord(log []byte, visit func(Record)) {
	const room = 1 << 40 // far above every position
	for {
		at := bytes.IndexByte(log, prefixLog)
		if at < 0 || len(log)-at <= logKeyLen {
			return
		}
		log = log[at:]
		position, value := binary.BigEndian.Uint64(log[1:]), log[logKeyLen:]
		length, n := binary.Uvarint(value)
		// #nosec G115 -- n is at most that
		if position < firstPosition || position > room || n <= 0 || length > uint64(len(value)-n) {
			log = log[1:]
			continue
		}
		value = value[n : n+int(length)] // #nosec G115 -- at most its length
		record, err := parseRecord(position, value)
		if err != nil || record.verify() != nil {
			log = log[1:]
			continue
		}
		visit(record)
		log = log[logKeyLen+n+len(value):]
	}
}

// losses are the events that were found behind damage.
type losses struct {
	streams map[string][]uint64 // revisions
	ends    map[uint64]uint64   // by position
}

// list returns the ranges of revisions that a database lacks: the seen ones, and those between a stream's end and its
// first seen one.
func (l losses) list(reader pebble.Reader) (ranges []Lost, err error) {
	for stream, revisions := range l.streams {
		h, err := loadHead(reader, stream)
		if err != nil {
			return nil, err
		}
		next := uint64(h.last + 1) // #nosec G115 -- at least -1
		slices.Sort(revisions)
		for _, revision := range slices.Compact(revisions) {
			if revision < next {
				continue
			}
			if revision > next && revision != MaxRevision {
				ranges = appendLost(ranges, Lost{stream, next, revision - 1, false})
			}
			ranges = appendLost(ranges, Lost{stream, revision, revision, true})
			next = revision + 1
		}
	}
	slices.SortStableFunc(ranges, func(a, b Lost) int {
		return cmp.Or(cmp.Compare(a.Stream, b.Stream), cmp.Compare(a.First, b.First))
	})
	return ranges, nil
}

// appendLost joins ranges that follow each other.
func appendLost(ranges []Lost, lost Lost) []Lost {
	if n := len(ranges); n > 0 {
		before := &ranges[n-1]
		if before.Stream == lost.Stream && before.Whole == lost.Whole && before.Last+1 == lost.First {
			before.Last = lost.Last
			return ranges
		}
	}
	return append(ranges, lost)
}

// unnamed reports whether not all events from next to the acknowledged one were seen: positions say where each ends.
func (l losses) unnamed(next, acknowledged uint64) bool {
	for end, ok := l.ends[next]; ok; end, ok = l.ends[next] {
		next = end
	}
	return next <= acknowledged || acknowledged == 0
}
