package store

import (
	"sort"
	"sync"
)

// ring holds the newest durable records, so that tailers at the head read no database. It is bounded in records and
// bytes; whoever falls behind it reads from the log.
type ring struct {
	mu       sync.RWMutex
	records  []Record // circular
	first    int
	count    int
	bytes    int
	maxBytes int
	// floor is a position after which the ring misses nothing.
	floor uint64
}

func newRing(maxRecords, maxBytes int, floor uint64) *ring {
	return &ring{records: make([]Record, maxRecords), maxBytes: maxBytes, floor: floor}
}

func (r *ring) add(records []Record) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, record := range records {
		if r.count == len(r.records) {
			r.evict()
		}
		r.records[(r.first+r.count)%len(r.records)] = record
		r.count++
		r.bytes += len(record.value)
	}
	for r.bytes > r.maxBytes && r.count > 0 {
		r.evict()
	}
}

func (r *ring) evict() {
	oldest := &r.records[r.first]
	r.floor = oldest.Position
	r.bytes -= len(oldest.value)
	*oldest = Record{}
	r.first = (r.first + 1) % len(r.records)
	r.count--
}

// clear empties the ring, as some of what it holds may be gone from the log.
func (r *ring) clear() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.count > 0 {
		r.evict()
	}
}

// after appends to dst the records with a position in (after, upTo], oldest first and as many as dst has room for.
// It reports false where the ring no longer reaches back that far. The records may be kept.
func (r *ring) after(after, upTo uint64, dst []Record) ([]Record, bool) {
	r.mu.RLock()
	defer r.mu.RUnlock()
	if after < r.floor {
		return dst, false
	}
	start := sort.Search(r.count, func(i int) bool { return r.at(i).Position > after })
	for i := start; i < r.count && len(dst) < cap(dst); i++ {
		record := r.at(i)
		if record.Position > upTo {
			break
		}
		dst = append(dst, record)
	}
	return dst, true
}

func (r *ring) at(i int) Record { return r.records[(r.first+i)%len(r.records)] }
