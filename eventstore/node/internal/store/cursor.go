package store

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// cursor reads heads, indexes and the log in turn with one iterator: to make one takes as long as to read a few events.
// It sees the database as of its creation, and keeps the files of that moment: close it before waiting for anything but
// the disk.
type cursor struct {
	iter         *pebble.Iterator
	lower, upper []byte
	next         uint64 // position that follows the present record; 0 if that is no record
}

// Most heads that are missing are of streams about to be created, so the filters of the bottom level are asked too.
var cursorOptions = pebble.IterOptions{UseL6Filters: true}

func (s *Store) newCursor() (*cursor, error) {
	iter, err := s.db.NewIter(&cursorOptions)
	if err != nil {
		return nil, fmt.Errorf("read: %w", err)
	}
	return &cursor{iter: iter}, nil
}

func (c *cursor) close() error {
	if err := c.iter.Close(); err != nil {
		return fmt.Errorf("read: %w", err)
	}
	return nil
}

// head reads a stream's head.
func (c *cursor) head(stream string) (head, error) {
	c.lower = headKey(c.lower[:0], stream)
	c.iter.SetBounds(c.lower, headsUpper)
	if c.iter.SeekPrefixGE(c.lower) {
		return parseHead(c.iter.Value())
	}
	if err := c.iter.Error(); err != nil {
		return head{}, fmt.Errorf("read stream head: %w", err)
	}
	return noHead, nil
}

// Positions are read ahead of their events in pieces: few at first, as most streams are short and many readers want
// a single event.
const (
	firstPositions = 16
	morePositions  = 128
)

// scan visits the records of a stream between two revisions, both inclusive.
func (c *cursor) scan(id, lower, upper uint64, direction Direction, visit func(Record) bool) error {
	var room [morePositions]uint64
	for limit := firstPositions; lower <= upper; limit = morePositions {
		positions, last, err := c.positions(id, lower, upper, direction, room[:0:limit])
		if err != nil || len(positions) == 0 {
			return err
		}
		if more, err := c.visit(positions, direction, visit); err != nil || !more {
			return err
		}
		switch {
		case len(positions) < limit, direction == Backwards && last == 0:
			return nil
		case direction == Backwards:
			upper = last - 1
		default:
			lower = last + 1
		}
	}
	return nil
}

// positions appends the positions of a stream's events to dst, up to its capacity, and returns the last one's revision.
func (c *cursor) positions(
	id, lower, upper uint64, direction Direction, dst []uint64,
) (found []uint64, last uint64, err error) {
	c.lower = indexKey(c.lower[:0], id, lower)
	c.upper = indexKey(c.upper[:0], id, upper+1)
	c.iter.SetBounds(c.lower, c.upper)
	step, ok := c.iter.Next, c.iter.First
	if direction == Backwards {
		step, ok = c.iter.Prev, c.iter.Last
	}
	for valid := ok(); valid && len(dst) < cap(dst); valid = step() {
		position, _, err := parseIndexValue(c.iter.Value())
		if err != nil {
			return nil, 0, err
		}
		if _, last, err = parseIndexKey(c.iter.Key()); err != nil {
			return nil, 0, err
		}
		dst = append(dst, position)
	}
	if err := c.iter.Error(); err != nil {
		return nil, 0, fmt.Errorf("read index: %w", err)
	}
	return dst, last, nil
}

// visit reads the records at positions that ascend, or descend when going backwards.
func (c *cursor) visit(positions []uint64, direction Direction, visit func(Record) bool) (more bool, err error) {
	first, last := positions[0], positions[len(positions)-1]
	if direction == Backwards {
		first, last = last, first
	}
	c.lower, c.upper = logKey(c.lower[:0], first), logKey(c.upper[:0], last+1)
	c.iter.SetBounds(c.lower, c.upper)
	c.next = 0
	for _, position := range positions {
		record, err := c.record(position)
		if errors.Is(err, ErrNotFound) {
			continue // removed by a scavenge meanwhile
		}
		if err != nil {
			return false, err
		}
		if !visit(record) {
			return false, nil
		}
	}
	return true, nil
}

// record reads the record at a position within the bounds. Records that follow each other cost one step.
func (c *cursor) record(position uint64) (Record, error) {
	var key [logKeyLen]byte
	found := position == c.next && c.iter.Next() || c.iter.SeekGE(logKey(key[:0], position))
	c.next = 0
	if !found {
		if err := c.iter.Error(); err != nil {
			return Record{}, fmt.Errorf("read log: %w", err)
		}
		return Record{}, ErrNotFound
	}
	if at, err := parseLogKey(c.iter.Key()); err != nil {
		return Record{}, err
	} else if at != position {
		return Record{}, ErrNotFound
	}
	value := c.iter.Value()
	c.next = position + uint64(len(value))
	return parseRecord(position, value)
}
