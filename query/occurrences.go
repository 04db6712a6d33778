package query

import (
	"encoding/binary"
	"encoding/hex"
	"math"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/pgtype"

	"carillon/eventstore/instant"
)

// The packed form of an item's occurrences, as described in the schema of items: records in order of start.
const (
	packedSize = 49
	noEnd      = math.MinInt64
	infinity   = math.MaxInt64 // as Postgres sends it
	instanceAt = 16
	startAt    = 32
	endAt      = 40
	statusAt   = 48
)

// renderer completes stored items with the occurrences of a range.
type renderer struct {
	since, until time.Time
	whole        bool // whether to include all occurrences, regardless of the range
	now          time.Time
	source       bool // whether to include the source block
	// legacy selects the legacy shape, which has the source's type only, and no relevance.
	legacy bool
	// same is the time during which the result stays the same. Unset for whole items.
	same spell
}

// item appends a whole item: a stored body, which is an object without its closing brace, its relevance, the
// occurrences, and the source block.
func (r *renderer) item(to, body, source, packed []byte, relevance pgtype.Float4) []byte {
	if r.legacy {
		to = appendLegacy(to, body, source)
		return append(r.occurrences(append(to, `,"occurrence":`...), packed), '}')
	}
	to = append(to, body...)
	if relevance.Valid {
		to = append(to, `,"relevanceScore":`...)
		to = strconv.AppendFloat(to, float64(relevance.Float32), 'f', -1, 32)
	}
	to = append(to, `,"occurrence":`...)
	to = r.occurrences(to, packed)
	if r.source {
		to = append(to, `,"source":`...)
		to = append(to, source...)
	}
	return append(to, '}')
}

// occurrences appends the occurrence object.
func (r *renderer) occurrences(to, packed []byte) []byte {
	packed = packed[:r.end(packed)]
	next := r.next(packed)
	to = append(to, '{')
	switch {
	case next < len(packed):
		to = append(to, `"nextOccurrence":`...)
		to = r.occurrence(to, packed[next:])
		to = append(to, ',')
	case r.legacy:
		to = append(to, `"nextOccurrence":null,`...)
	}
	to = append(to, `"occurrencesInRange":[`...)
	upcoming, total := 0, 0
	for at := 0; at < len(packed); at += packedSize {
		if !r.whole && lastInstant(packed[at:]) < r.since.UnixMicro() {
			continue
		}
		if total > 0 {
			to = append(to, ',')
		}
		total++
		to = r.occurrence(to, packed[at:])
		if r.upcoming(packed[at:]) {
			upcoming++
		}
		r.passes(micros(packed[at+startAt:]))
	}
	to = append(to, `],"totalOccurrences":`...)
	to = strconv.AppendInt(to, int64(total), 10)
	to = append(to, `,"upcomingOccurrences":`...)
	to = strconv.AppendInt(to, int64(upcoming), 10)
	return append(to, '}')
}

// end returns the end of the records that begin in the range or before it.
func (r *renderer) end(packed []byte) int {
	if r.whole {
		return len(packed)
	}
	return search(packed, r.until.UnixMicro()+1)
}

// next returns the next occurrence: the first in the range or, without a range, the first to come.
func (r *renderer) next(packed []byte) int {
	if r.whole {
		return search(packed, r.now.UnixMicro())
	}
	next := 0
	for next < len(packed) && lastInstant(packed[next:]) < r.since.UnixMicro() {
		next += packedSize
	}
	return next
}

// lastInstant returns the microsecond before the end of an occurrence or, without an end, its start.
func lastInstant(record []byte) int64 {
	start, end := micros(record[startAt:]), micros(record[endAt:])
	if end == noEnd {
		return start
	}
	return max(start, end-1)
}

// passes narrows the spell at an instant at which an occurrence begins or ends.
func (r *renderer) passes(instant int64) {
	if at := time.UnixMicro(instant); !at.After(r.now) {
		if at.After(r.same.from) {
			r.same.from = at
		}
	} else if at.Before(r.same.before) {
		r.same.before = at
	}
}

// search returns the first record that starts at an instant or later.
func search(packed []byte, instant int64) int {
	low, high := 0, len(packed)/packedSize
	for low < high {
		middle := (low + high) / 2
		if micros(packed[middle*packedSize+startAt:]) < instant {
			low = middle + 1
		} else {
			high = middle
		}
	}
	return low * packedSize
}

// upcoming reports whether an occurrence takes place after now.
func (r *renderer) upcoming(record []byte) bool {
	status := record[statusAt]
	return micros(record[startAt:]) > r.now.UnixMicro() && status != 'c' && status != 'p'
}

// occurrence appends one occurrence.
func (r *renderer) occurrence(to, record []byte) []byte {
	start, end := micros(record[startAt:]), micros(record[endAt:])
	to = append(to, `{"id":"`...)
	to = appendUUID(to, record[:instanceAt])
	to = append(to, `","instanceId":"`...)
	to = appendUUID(to, record[instanceAt:startAt])
	to = append(to, `","startDateTime":"`...)
	to = instant.Append(to, time.UnixMicro(start))
	if end == noEnd {
		to = append(to, `","endDateTime":null,"status":"`...)
		end = start
	} else {
		to = append(to, `","endDateTime":"`...)
		to = instant.Append(to, time.UnixMicro(end))
		to = append(to, `","status":"`...)
	}
	r.passes(end)
	to = append(to, status(record[statusAt], end <= r.now.UnixMicro())...)
	return append(to, `"}`...)
}

// status spells out a status letter. A scheduled occurrence that has ended is completed.
func status(letter byte, ended bool) string {
	switch {
	case letter == 'c':
		return "cancelled"
	case letter == 'p':
		return "postponed"
	case ended:
		return "completed"
	case letter == 'r':
		return "rescheduled"
	}
	return "scheduled"
}

func micros(b []byte) int64 { return int64(binary.BigEndian.Uint64(b)) } //nolint:gosec // two's complement, as packed

func appendUUID(to, id []byte) []byte {
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		begin := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			to = append(to, '-')
		}
		to = hex.AppendEncode(to, id[begin:end])
	}
	return to
}
