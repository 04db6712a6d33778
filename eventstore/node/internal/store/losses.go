package store

import (
	"cmp"
	"slices"
	"unicode/utf8"

	"github.com/cockroachdb/pebble/v2"
)

// losses gathers the events behind a damaged place of a log.
type losses struct {
	streams map[string]map[uint64]bool // by stream and revision: whether the event is whole
	bytes   map[uint64]uint64          // by position: length
}

func newLosses() *losses {
	return &losses{streams: map[string]map[uint64]bool{}, bytes: map[uint64]uint64{}}
}

// add takes in the events of batches that can't be used. whole says that the batches pass their checksums.
func (l *losses) add(batches [][]byte, whole bool) {
	for _, batch := range batches {
		eachRecord(batch, func(record Record, sound bool) {
			name, _, err := record.Names()
			if err != nil || !sound && (!utf8.Valid(name) || record.Revision() > MaxRevision) {
				return
			}
			revisions := l.streams[string(name)]
			if revisions == nil {
				revisions = map[uint64]bool{}
				l.streams[string(name)] = revisions
			}
			revisions[record.Revision()] = revisions[record.Revision()] || whole && sound
			l.bytes[record.Position] = uint64(len(record.value))
		})
	}
}

// list returns the ranges of revisions that a database lacks: those that were seen, and those between a stream's
// end and the first of it that was seen.
func (l *losses) list(reader pebble.Reader) (ranges []Lost, err error) {
	for stream, revisions := range l.streams {
		h, err := loadHeadFrom(reader, stream)
		if err != nil {
			return nil, err
		}
		var seen []uint64
		for revision := range revisions {
			if h.last < 0 || revision > uint64(h.last) {
				seen = append(seen, revision)
			}
		}
		slices.Sort(seen)
		next := uint64(h.last + 1) // #nosec G115 -- at least -1
		for _, revision := range seen {
			if revision > next && revision != MaxRevision {
				ranges = appendLost(ranges, Lost{stream, next, revision - 1, false})
			}
			ranges = appendLost(ranges, Lost{stream, revision, revision, revisions[revision]})
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

// unnamed reports whether events are missing of which nothing was seen: positions say where each event ends.
func (l *losses) unnamed(last, acknowledged uint64) bool {
	positions := make([]uint64, 0, len(l.bytes))
	for position := range l.bytes {
		if position > last {
			positions = append(positions, position)
		}
	}
	slices.Sort(positions)
	for i, position := range positions {
		if i > 0 && positions[i-1]+l.bytes[positions[i-1]] != position {
			return true
		}
	}
	return len(positions) == 0 || positions[len(positions)-1] < acknowledged
}
