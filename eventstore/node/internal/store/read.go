package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

// Stream is a reader's view of a stream, as of some durable moment.
type Stream struct {
	Name string
	head
}

// Exists reports whether the stream was written to and not soft-deleted since.
func (s Stream) Exists() bool { return s.exists() }

// Tombstoned reports whether the stream was ended permanently.
func (s Stream) Tombstoned() bool { return s.tombstoned }

// Last is the stream's last revision, -1 if it has none.
func (s Stream) Last() int64 { return s.last }

// First is the first revision that truncation by number leaves readable; age may leave less.
func (s Stream) First() uint64 {
	maxCount := s.settings.MaxCount
	if _, ok := DescribedStream(s.Name); ok {
		maxCount = 1 // only the newest metadata counts
	}
	first := max(s.settings.TruncateBefore, s.floor)
	if count := uint64(s.last + 1); maxCount > 0 && count > maxCount { // #nosec G115 -- last is at least -1
		first = max(first, count-maxCount)
	}
	return first
}

// Stream looks a stream up. Where its newest event is just being written, it waits until that is durable.
func (s *Store) Stream(ctx context.Context, name string) (stream Stream, err error) {
	c, err := s.newCursor()
	if err != nil {
		return Stream{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return s.lookUp(ctx, c, name)
}

func (s *Store) lookUp(ctx context.Context, c *cursor, name string) (Stream, error) {
	h, err := c.head(name)
	if err != nil {
		return Stream{}, err
	}
	if h.changed > s.watermark.Load() {
		if err := s.waitDurable(ctx, h.changed); err != nil {
			return Stream{}, err
		}
	}
	stream := Stream{Name: name, head: h}
	if described, ok := DescribedStream(name); ok && !h.tombstoned {
		// The metadata of a tombstoned stream is as gone as the stream.
		target, err := s.lookUp(ctx, c, described)
		if err != nil {
			return Stream{}, err
		}
		stream.tombstoned = target.tombstoned
	}
	return stream, nil
}

// get reads one record, which may be kept.
func (s *Store) get(position uint64) (Record, error) {
	var buf [logKeyLen]byte
	value, closer, err := s.db.Get(logKey(buf[:0], position))
	if errors.Is(err, pebble.ErrNotFound) {
		return Record{}, ErrNotFound
	}
	if err != nil {
		return Record{}, fmt.Errorf("read event: %w", err)
	}
	defer func() { _ = closer.Close() }()
	record, err := parseRecord(position, value)
	if err != nil {
		return Record{}, err
	}
	return record.Clone(), nil
}

// Direction is the order of a read.
type Direction bool

// Directions.
const (
	Forwards  Direction = false
	Backwards Direction = true
)

// Event reads one event of a stream, which may be kept. ErrNotFound if there is none.
func (s *Store) Event(ctx context.Context, name string, revision uint64) (Record, error) {
	var found Record
	_, err := s.Read(ctx, name, revision, Forwards, func(record Record) bool {
		if record.Revision() == revision {
			found = record.Clone()
		}
		return false
	})
	if err == nil && found.value == nil {
		err = ErrNotFound
	}
	return found, err
}

// TombstoneOf returns the event that ended a stream. ErrNotFound if it hasn't ended.
func (s *Store) TombstoneOf(stream Stream) (record Record, err error) {
	c, err := s.newCursor()
	if err != nil {
		return Record{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	record, found, err := c.nextInStream(stream.id, MaxRevision, MaxRevision+1)
	if err == nil && !found {
		err = ErrNotFound
	}
	return record, err
}

// Read looks a stream up and reads it: Stream and ReadStream in one, for less than the two.
func (s *Store) Read(
	ctx context.Context, name string, from uint64, direction Direction, visit func(Record) bool,
) (stream Stream, err error) {
	c, err := s.newCursor()
	if err != nil {
		return Stream{}, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if stream, err = s.lookUp(ctx, c, name); err != nil {
		return stream, err
	}
	return stream, s.read(c, stream, from, direction, visit)
}

// ReadStream calls visit for the readable events of a stream in order, from a revision (inclusive) on, until visit
// returns false. Records are only valid during the call. Events that come after the moment the stream was looked up
// are not among them.
func (s *Store) ReadStream(stream Stream, from uint64, direction Direction, visit func(Record) bool) (err error) {
	c, err := s.newCursor()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return s.read(c, stream, from, direction, visit)
}

func (s *Store) read(c *cursor, stream Stream, from uint64, direction Direction, visit func(Record) bool) error {
	if !stream.exists() {
		return nil
	}
	first, err := c.FirstReadable(stream, s.options.Now)
	if err != nil {
		return err
	}
	last := uint64(stream.last) // #nosec G115 -- exists
	lower, upper := max(from, first), last
	if direction == Backwards {
		lower, upper = first, min(from, last)
	}
	if lower > upper {
		return nil
	}
	return c.scan(stream.id, lower, upper, direction, visit)
}

// FirstReadable is the first revision of a stream that can be read; beyond its last if none can.
func (s *Store) FirstReadable(stream Stream) (first uint64, err error) {
	c, err := s.newCursor()
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	return c.FirstReadable(stream, s.options.Now)
}

// FirstReadable also takes the age of events into account. Creation times never decrease within a stream, so it
// halves its way to the first event young enough.
func (c *cursor) FirstReadable(stream Stream, clock func() time.Time) (uint64, error) {
	first := stream.First()
	maxAge := stream.settings.MaxAge
	if maxAge == 0 || stream.last < 0 || first > uint64(stream.last) {
		return first, nil
	}
	now := ticks(clock())
	if maxAge > uint64(now)/ticksPerSecond { // #nosec G115 -- times after 1970
		return first, nil
	}
	oldest := now - int64(maxAge)*ticksPerSecond // #nosec G115 -- compared above
	low, high := first, uint64(stream.last)+1    // the answer is within [low, high]
	for low < high {
		middle := low + (high-low)/2
		record, found, err := c.nextInStream(stream.id, middle, high)
		if err != nil {
			return 0, err
		}
		switch {
		case !found: // nothing from the middle up
			high = middle
		case record.Created() >= oldest:
			high = middle
		default:
			low = record.Revision() + 1
		}
	}
	return low, nil
}

// nextInStream returns the first record with a revision in [from, below).
func (c *cursor) nextInStream(id, from, below uint64) (record Record, found bool, err error) {
	if from >= below {
		return Record{}, false, nil
	}
	err = c.scan(id, from, below-1, Forwards, func(r Record) bool {
		record, found = r.Clone(), true
		return false
	})
	return record, found, err
}
