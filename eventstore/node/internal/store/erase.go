package store

import (
	"encoding/binary"
	"fmt"
)

// accounted reports whether all bytes ever erased were counted: not if some were erased by a version without a count.
func accounted(floor, erased uint64) bool { return floor == 0 || erased > 0 }

// decideErase removes unreadable events. It notes the next position, as the last record may be among them, and their
// size, so that other missing events are noticed.
func (q *sequencing) decideErase(r *request) error {
	h, err := q.heads.get(r.stream)
	if err != nil {
		return err
	}
	if h.floor != r.above {
		return nil // done, by a scavenge that did not wait for it
	}
	h.floor = r.below
	q.heads.mark(h)
	batch := q.writing()
	for _, key := range r.erase {
		if err := batch.Delete(key, nil); err != nil {
			return fmt.Errorf("erase: %w", err)
		}
		q.bytes += len(key)
	}
	err = batch.Set(nextPositionKey, binary.BigEndian.AppendUint64(nil, q.next), nil)
	if q.accounted && err == nil {
		q.erasedBytes += r.erased
		err = batch.Set(erasedKey, binary.BigEndian.AppendUint64(nil, q.erasedBytes), nil)
	}
	if err != nil {
		return fmt.Errorf("erase: %w", err)
	}
	return nil
}
