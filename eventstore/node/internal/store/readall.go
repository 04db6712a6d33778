package store

import (
	"errors"
	"fmt"
	"math"

	"github.com/cockroachdb/pebble/v2"
)

// ReadAll calls visit for each durable event with a position after the given one, in order, until visit returns false
// or the end is reached. It returns the position to go on after and whether that is the end: then it is the watermark,
// which may be beyond the last event, as that may have been scavenged. Records are only valid during the call.
func (s *Store) ReadAll(after uint64, visit func(Record) bool) (last uint64, end bool, err error) {
	upTo := s.watermark.Load()
	if after >= upTo {
		return after, true, nil
	}
	iter, err := s.logIter(after+1, upTo+1)
	if err != nil {
		return after, false, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		record, err := currentRecord(iter)
		if err != nil {
			return after, false, err
		}
		after = record.Position
		if !visit(record) {
			return after, after == upTo, nil
		}
	}
	if err := iter.Error(); err != nil {
		return after, false, err
	}
	return upTo, true, nil
}

// ReadAllBackwards calls visit for each durable event with a position before the given one, newest first, until
// visit returns false.
func (s *Store) ReadAllBackwards(before uint64, visit func(Record) bool) (err error) {
	upTo := s.watermark.Load()
	if upTo < math.MaxUint64 {
		before = min(before, upTo+1)
	}
	iter, err := s.logIter(0, before)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.Last(); ok; ok = iter.Prev() {
		record, err := currentRecord(iter)
		if err != nil {
			return err
		}
		if !visit(record) {
			return nil
		}
	}
	return iter.Error()
}

func (s *Store) logIter(from, below uint64) (*pebble.Iterator, error) {
	var lower, upper [logKeyLen]byte
	iter, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: logKey(lower[:0], from), UpperBound: logKey(upper[:0], below),
	})
	if err != nil {
		return nil, fmt.Errorf("read log: %w", err)
	}
	return iter, nil
}

func currentRecord(iter *pebble.Iterator) (Record, error) {
	position, err := parseLogKey(iter.Key())
	if err != nil {
		return Record{}, err
	}
	return parseRecord(position, iter.Value())
}
