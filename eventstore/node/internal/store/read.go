package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Stream is what a reader needs to know about a stream, as of some durable moment.
type Stream struct {
	Name string
	head
}

// Exists reports whether the stream was written to and not soft-deleted since.
func (s Stream) Exists() bool { return s.exists() }

// Tombstoned reports whether the stream was ended for good.
func (s Stream) Tombstoned() bool { return s.tombstoned }

// Last is the stream's last revision, -1 where it has none.
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
func (s *Store) Stream(ctx context.Context, name string) (Stream, error) {
	h, err := s.loadHead(name)
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
		target, err := s.Stream(ctx, described)
		if err != nil {
			return Stream{}, err
		}
		stream.tombstoned = target.tombstoned
	}
	return stream, nil
}

// loadHead reads a stream's head. Most misses are streams about to be created, so it goes through an iterator, which
// unlike Get asks the filters of the bottom level too.
func (s *Store) loadHead(stream string) (head, error) { return loadHeadFrom(s.db, stream) }

func loadHeadFrom(reader pebble.Reader, stream string) (h head, err error) {
	var buf [128]byte
	key := headKey(buf[:0], stream)
	iter, err := reader.NewIter(&pebble.IterOptions{
		LowerBound: key, UpperBound: headsUpper, UseL6Filters: true,
	})
	if err != nil {
		return head{}, fmt.Errorf("read stream head: %w", err)
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	if iter.SeekPrefixGE(key) {
		return parseHead(iter.Value())
	}
	if err := iter.Error(); err != nil {
		return head{}, fmt.Errorf("read stream head: %w", err)
	}
	return noHead, nil
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

// Event reads one readable event of a stream, which may be kept. ErrNotFound where there is none.
func (s *Store) Event(ctx context.Context, name string, revision uint64) (Record, error) {
	stream, err := s.Stream(ctx, name)
	if err != nil {
		return Record{}, err
	}
	var found Record
	err = s.ReadStream(stream, revision, Forwards, func(record Record) bool {
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

// ReadStream calls visit for the readable events of a stream in order, from a revision (inclusive) on, until visit
// returns false. Records are only valid during the call. Events that come after the moment the stream was looked up
// are not among them.
func (s *Store) ReadStream(stream Stream, from uint64, direction Direction, visit func(Record) bool) error {
	if !stream.exists() {
		return nil
	}
	first, err := s.firstReadable(stream)
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
	return s.scanIndex(stream.id, lower, upper, direction, visit)
}

// scanIndex visits the records of a stream between two revisions, both inclusive.
func (s *Store) scanIndex(id, lower, upper uint64, direction Direction, visit func(Record) bool) (err error) {
	var lowerKey, upperKey [indexKeyLen]byte
	index, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: indexKey(lowerKey[:0], id, lower),
		UpperBound: indexKey(upperKey[:0], id, upper+1),
	})
	if err != nil {
		return fmt.Errorf("read index: %w", err)
	}
	defer func() { err = errors.Join(err, index.Close()) }()
	log := logCursor{store: s}
	defer func() { err = errors.Join(err, log.close()) }()

	step, ok := index.Next, index.First
	if direction == Backwards {
		step, ok = index.Prev, index.Last
	}
	for valid := ok(); valid; valid = step() {
		position, _, err := parseIndexValue(index.Value())
		if err != nil {
			return err
		}
		record, err := log.at(position)
		if errors.Is(err, ErrNotFound) {
			continue // removed by a scavenge meanwhile
		}
		if err != nil {
			return err
		}
		if !visit(record) {
			break
		}
	}
	return index.Error()
}

// firstReadable also takes the age of events into account. Creation times never decrease within a stream, so it
// halves its way to the first event young enough.
func (s *Store) firstReadable(stream Stream) (uint64, error) {
	first := stream.First()
	maxAge := stream.settings.MaxAge
	if maxAge == 0 || stream.last < 0 || first > uint64(stream.last) {
		return first, nil
	}
	now := ticks(s.options.Now())
	if maxAge > uint64(now)/ticksPerSecond { // #nosec G115 -- times after 1970
		return first, nil
	}
	oldest := now - int64(maxAge)*ticksPerSecond // #nosec G115 -- compared above
	low, high := first, uint64(stream.last)+1    // the answer is within [low, high]
	for low < high {
		middle := low + (high-low)/2
		record, found, err := s.nextInStream(stream.id, middle, high)
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
func (s *Store) nextInStream(id, from, below uint64) (record Record, found bool, err error) {
	if from >= below {
		return Record{}, false, nil
	}
	err = s.scanIndex(id, from, below-1, Forwards, func(r Record) bool {
		record, found = r.Clone(), true
		return false
	})
	return record, found, err
}

// logCursor reads records by position. Positions that follow each other in the log cost one step.
type logCursor struct {
	store *Store
	iter  *pebble.Iterator
	key   []byte
	next  uint64 // position that follows the present record; 0 before there is one
}

func (c *logCursor) at(position uint64) (Record, error) {
	if c.iter == nil {
		iter, err := c.store.db.NewIter(&pebble.IterOptions{
			LowerBound: []byte{prefixLog}, UpperBound: []byte{prefixLog + 1},
		})
		if err != nil {
			return Record{}, fmt.Errorf("read log: %w", err)
		}
		c.iter = iter
	}
	c.key = logKey(c.key[:0], position)
	found := position == c.next && c.iter.Next() || c.iter.SeekGE(c.key)
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

func (c *logCursor) close() error {
	if c.iter == nil {
		return nil
	}
	return c.iter.Close()
}
