package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// Scavenged is the amount that Scavenge removed.
type Scavenged struct {
	Events uint64 `json:"events"`
	Bytes  uint64 `json:"bytes"`
}

const (
	// scavengePage is how many streams are looked at under one view of the database.
	scavengePage = 1024
	// scavengeBatch is how many events are removed at once.
	scavengeBatch = 512
)

// Scavenge removes permanently the events that deletion and truncation have made unreadable, and returns their space
// back. The store works meanwhile; ending it early only leaves work for the next time. progress is called now and then
// with how many streams are done.
func (s *Store) Scavenge(ctx context.Context, progress func(done, total uint64)) (removed Scavenged, err error) {
	select {
	case s.scavenging <- struct{}{}: // two would count the same events
		defer func() { <-s.scavenging }()
	case <-ctx.Done():
		return removed, fmt.Errorf("scavenge: %w", ctx.Err())
	}
	total, err := s.countHeads(ctx)
	if err != nil {
		return removed, fmt.Errorf("scavenge: %w", err)
	}
	done := uint64(0)
	for after := []byte{prefixHead}; after != nil; {
		var streams []Stream
		if streams, after, err = s.headsAfter(after); err != nil {
			return removed, fmt.Errorf("scavenge: %w", err)
		}
		for _, stream := range streams {
			if err := s.scavengeStream(ctx, stream, &removed); err != nil {
				return removed, fmt.Errorf("scavenge stream %q: %w", stream.Name, err)
			}
			done++
		}
		if progress != nil {
			progress(min(done, total), total)
		}
	}
	if removed.Events == 0 {
		return removed, nil
	}
	for _, prefix := range []byte{prefixIndex, prefixLog} {
		if err := s.db.Compact(ctx, []byte{prefix}, []byte{prefix + 1}, false); err != nil {
			return removed, fmt.Errorf("scavenge: give space back: %w", err)
		}
	}
	return removed, nil
}

func (s *Store) countHeads(ctx context.Context) (count uint64, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: []byte{prefixHead}, UpperBound: headsUpper})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if count++; count%progressEvery == 0 && ctx.Err() != nil {
			return 0, ctx.Err()
		}
	}
	return count, iter.Error()
}

// headsAfter returns the next streams in the order of their keys, and the key to go on from; nil at the end.
func (s *Store) headsAfter(after []byte) (streams []Stream, next []byte, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{LowerBound: after, UpperBound: headsUpper})
	if err != nil {
		return nil, nil, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	for ok := iter.First(); ok; ok = iter.Next() {
		if len(streams) == scavengePage {
			return streams, append([]byte(nil), iter.Key()...), nil
		}
		h, err := parseHead(iter.Value())
		if err != nil {
			return nil, nil, err
		}
		streams = append(streams, Stream{Name: string(iter.Key()[1:]), head: h})
	}
	return streams, nil, iter.Error()
}

// scavengeStream removes the unreadable events of a stream. Only durable ones may be removed, and durably.
func (s *Store) scavengeStream(ctx context.Context, stream Stream, removed *Scavenged) error {
	if stream.id == 0 {
		return nil
	}
	if err := s.waitDurable(ctx, stream.changed); err != nil {
		return err
	}
	below, err := s.unreadableBelow(stream)
	if err != nil {
		return err
	}
	for from := stream.floor; from < below; {
		keys, next, bytes, err := s.removable(stream.id, from, below)
		if err != nil || len(keys) == 0 {
			return err
		}
		request := &request{
			kind:   requestErase,
			stream: stream.Name,
			erase:  keys,
			above:  from,
			below:  next,
			erased: bytes,
		}
		if _, err := s.submit(ctx, request); err != nil {
			return err
		}
		removed.Events += uint64(len(keys) / 2)
		removed.Bytes += bytes
		from = next
	}
	return nil
}

// unreadableBelow is the revision below which no event of a stream can be read. A tombstone itself stays.
func (s *Store) unreadableBelow(stream Stream) (uint64, error) {
	switch {
	case stream.tombstoned:
		return MaxRevision, nil
	case stream.settings.softDeleted():
		return uint64(stream.last + 1), nil // #nosec G115 -- at least -1
	}
	first, err := s.FirstReadable(stream)
	return min(first, uint64(stream.last+1)), err // #nosec G115 -- at least -1
}

// removable returns the keys of the next events of a stream with revisions in [from, below).
func (s *Store) removable(id, from, below uint64) (keys [][]byte, next, bytes uint64, err error) {
	iter, err := s.db.NewIter(&pebble.IterOptions{
		LowerBound: indexKey(nil, id, from), UpperBound: indexKey(nil, id, below),
	})
	if err != nil {
		return nil, 0, 0, err
	}
	defer func() { err = errors.Join(err, iter.Close()) }()
	next = below
	for ok := iter.First(); ok; ok = iter.Next() {
		_, revision, err := parseIndexKey(iter.Key())
		if err != nil {
			return nil, 0, 0, err
		}
		if len(keys) == 2*scavengeBatch {
			next = revision
			break
		}
		position, _, err := parseIndexValue(iter.Value())
		if err != nil {
			return nil, 0, 0, err
		}
		record, err := s.get(position)
		if err != nil && !errors.Is(err, ErrNotFound) {
			return nil, 0, 0, err
		}
		bytes += uint64(len(record.value))
		keys = append(keys, append([]byte(nil), iter.Key()...), logKey(nil, position))
	}
	return keys, next, bytes, iter.Error()
}
