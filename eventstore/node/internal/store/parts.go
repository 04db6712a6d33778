package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// PartWrite sets what another part of the node keeps under a name. A nil value removes it.
type PartWrite struct {
	Name  string
	Value []byte
}

// Put makes writes durable, all or none.
func (s *Store) Put(ctx context.Context, writes ...PartWrite) error {
	size := 0
	for _, write := range writes {
		size += len(write.Name) + len(write.Value)
	}
	_, err := s.submit(ctx, &request{kind: requestPut, part: writes, bytes: size})
	return err
}

// Parts calls visit for everything kept under names that begin with prefix, in order. The value is only valid during
// the call.
func (s *Store) Parts(prefix string, visit func(name string, value []byte) error) (err error) {
	lower := partKey(prefix)
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: lower, UpperBound: []byte{prefixPart + 1}})
	if err != nil {
		return fmt.Errorf("read parts: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok && bytes.HasPrefix(iter.Key(), lower); ok = iter.Next() {
		if err := visit(string(iter.Key()[1:]), iter.Value()); err != nil {
			return err
		}
	}
	return iter.Error()
}

func (q *sequencing) decidePut(r *request) error {
	batch := q.writing()
	for _, part := range r.part {
		key := partKey(part.Name)
		write := func() error { return batch.Set(key, part.Value, nil) }
		if part.Value == nil {
			write = func() error { return batch.Delete(key, nil) }
		}
		if err := write(); err != nil {
			return fmt.Errorf("add part: %w", err)
		}
		q.bytes += len(key) + len(part.Value)
	}
	return nil
}

// accounted reports whether all bytes ever erased were counted: not where that was before there was a count.
func accounted(floor, erased uint64) bool { return floor == 0 || erased > 0 }

// decideErase removes what nobody can read any more. The next position is noted, as the last record may be among it,
// and how much it was, so that whatever else is missing is noticed.
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
	q.erased = true
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
