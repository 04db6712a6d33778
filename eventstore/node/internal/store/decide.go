package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
)

// decide carries a request out in the present batch, or returns why it is refused.
func (q *sequencing) decide(r *request) error {
	switch r.kind {
	case requestAppend:
		return q.decideAppend(r)
	case requestDelete:
		return q.decideDelete(r)
	case requestTombstone:
		return q.decideTombstone(r)
	case requestErase:
		return q.decideErase(r)
	}
	return fmt.Errorf("%w: request of kind %d", ErrInvalid, r.kind)
}

func (q *sequencing) decideAppend(r *request) error {
	h, err := q.heads.get(r.stream)
	if err != nil {
		return err
	}
	if err := q.refuseTombstoned(h); err != nil {
		return err
	}
	repeated, err := q.checkAppend(r, h)
	if err != nil || repeated {
		if q.options.Original && h.settings.softDeleted() {
			r.result.Position = 0 // none
		}
		return err
	}
	r.result.Revision = h.last
	if len(r.events) == 0 {
		return nil
	}
	base := uint64(h.last + 1) // #nosec G115 -- last is at least -1
	var meta *cachedHead
	var metadata []byte
	if h.settings.softDeleted() {
		// Read before anything is written, as it may end the batch and an append must not span two.
		if meta, err = q.heads.get(MetadataStream(r.stream)); err != nil {
			return err
		}
		if metadata, err = q.lastData(meta); err != nil {
			return err
		}
	}
	if r.result.Position, err = q.write(h, base, r.events); err != nil {
		return err
	}
	r.result.Revision = h.last
	q.recent.add(r.events, r.stream, base)
	if meta != nil { // the rest of its metadata stays
		return q.writeMetadata(meta, h, metadata, base)
	}
	if described, ok := DescribedStream(r.stream); ok {
		return q.applyMetadata(h, described, r.events[len(r.events)-1])
	}
	return nil
}

// refuseTombstoned also covers the metadata stream of a tombstoned stream.
func (q *sequencing) refuseTombstoned(h *cachedHead) error {
	if h.tombstoned {
		return ErrStreamDeleted
	}
	if described, ok := DescribedStream(h.stream); ok {
		target, err := q.heads.get(described)
		if err != nil {
			return err
		}
		if target.tombstoned {
			return ErrStreamDeleted
		}
	}
	return nil
}

// checkAppend compares the expectation with the head. It reports true if the same events are there already, and then
// has set the result.
func (q *sequencing) checkAppend(r *request, h *cachedHead) (repeated bool, err error) {
	switch r.expected.kind {
	case expectAny, expectExists:
		if r.expected.kind == expectExists {
			if err := q.checkExists(r, h); err != nil {
				return false, err
			}
		}
		start, ok := q.recent.find(r.events, r.stream)
		if !ok {
			return false, nil
		}
		if last, ok := q.recent.all(r.events, r.stream); ok {
			return q.repeatsOrWrong(r, h, r.events[len(r.events)-1:], last) // in another order, too
		}
		return q.repeatsOrWrong(r, h, r.events, start) // wrong where only the first of them are there
	case expectNoStream:
		switch {
		case h.last < 0:
			return false, nil
		case q.options.Original:
			return q.repeatsFromZero(r, h)
		case h.settings.softDeleted():
			return false, nil
		}
		return q.repeatsOrWrong(r, h, r.events, h.base)
	case expectRevision:
		current := uint64(h.last) // #nosec G115 -- compared only where last >= 0
		switch {
		case h.last >= 0 && r.expected.revision == current:
			return false, nil
		case h.last < 0 || r.expected.revision > current:
			return false, r.wrong(h)
		}
		return q.repeatsOrWrong(r, h, r.events, r.expected.revision+1)
	case expectUnset:
	}
	return false, fmt.Errorf("%w: no expected revision", ErrInvalid)
}

// checkExists refuses a stream that has neither events nor metadata, or was deleted.
func (q *sequencing) checkExists(r *request, h *cachedHead) error {
	if h.settings.softDeleted() {
		return ErrStreamDeleted
	}
	if h.last >= 0 {
		return nil
	}
	meta, err := q.heads.get(MetadataStream(r.stream))
	if err == nil && meta.last < 0 {
		err = r.wrong(h)
	}
	return err
}

func (r *request) wrong(h *cachedHead) error {
	return &WrongRevisionError{Stream: r.stream, Expected: r.expected, Current: h.last}
}

func (q *sequencing) repeatsOrWrong(r *request, h *cachedHead, events []Proposed, start uint64) (bool, error) {
	repeated, err := q.repeats(r, h, events, start)
	if err == nil && !repeated {
		return false, r.wrong(h)
	}
	return repeated, err
}

// repeats reports whether the stream holds exactly these events from a revision on, and sets the result if it does. The
// index holds their ids, so that a retry is recognized however late it comes.
func (q *sequencing) repeats(r *request, h *cachedHead, events []Proposed, start uint64) (bool, error) {
	if len(events) == 0 || start+uint64(len(events)) > uint64(h.last)+1 { // #nosec G115 -- last >= 0 here
		return false, nil
	}
	if h.dirty { // the events may be in the very batch being built
		if err := q.cut(); err != nil {
			return false, err
		}
	}
	for i, event := range events {
		position, id, err := q.getIndex(h.id, start+uint64(i)) // #nosec G115 -- not negative
		if errors.Is(err, ErrNotFound) || err == nil && id != event.id {
			return false, nil
		}
		if err != nil {
			return false, err
		}
		r.result = Result{Revision: int64(start) + int64(i), Position: position} // #nosec G115 -- below MaxRevision
	}
	return true, nil
}

// repeatsFromZero compares an append that expects no stream with the first events that the stream ever had, as
// EventStoreDB does. So a deleted event is not written again, and events written after the deletion are not recognized.
func (q *sequencing) repeatsFromZero(r *request, h *cachedHead) (bool, error) {
	repeated, err := q.repeats(r, h, r.events, 0)
	switch {
	case err != nil:
		return false, err
	case !repeated && !h.settings.softDeleted():
		return false, r.wrong(h)
	}
	return repeated, nil
}

func (q *sequencing) getIndex(streamID, revision uint64) (uint64, EventID, error) {
	q.key = indexKey(q.key[:0], streamID, revision)
	value, closer, err := q.db.Get(q.key)
	if errors.Is(err, pebble.ErrNotFound) {
		return 0, EventID{}, ErrNotFound
	}
	if err != nil {
		return 0, EventID{}, fmt.Errorf("read index: %w", err)
	}
	defer func() { _ = closer.Close() }()
	return parseIndexValue(value)
}

// write adds events to the batch, from a revision on, and returns the position of the last.
func (q *sequencing) write(h *cachedHead, revision uint64, events []Proposed) (uint64, error) {
	batch := q.writing()
	for i, event := range events {
		position := q.next
		if h.id == 0 {
			h.id = position
		}
		at := revision + uint64(i) // #nosec G115 -- not negative
		event.seal(position, at, q.stamp())
		q.key = logKey(q.key[:0], position)
		if err := batch.Set(q.key, event.value, nil); err != nil {
			return 0, fmt.Errorf("add event: %w", err)
		}
		q.key = indexKey(q.key[:0], h.id, at)
		q.value = indexValue(q.value[:0], position, event.id)
		if err := batch.Set(q.key, q.value, nil); err != nil {
			return 0, fmt.Errorf("add index entry: %w", err)
		}
		h.last, h.changed = int64(at), position // #nosec G115 -- at most MaxRevision
		q.next += uint64(len(event.value))
		q.bytes += len(event.value)
		q.last = position
	}
	q.heads.mark(h)
	return h.changed, nil
}

// Append adds events to a stream, all or none. With an expected revision or NoStream a repetition of stored events
// succeeds and writes nothing. Errors: *WrongRevisionError, ErrStreamDeleted, ErrFull, ErrFailed, ErrClosed.
func (s *Store) Append(ctx context.Context, stream string, expected Expected, events []Proposed) (Result, error) {
	return s.submit(ctx, appendOf(stream, expected, events))
}

// AppendUnsynced is Append for events that are made again if they are lost: it is answered before they are durable.
// They are soon afterwards, no later than what is appended next, and no reader sees them before.
func (s *Store) AppendUnsynced(
	ctx context.Context, stream string, expected Expected, events []Proposed,
) (Result, error) {
	r := appendOf(stream, expected, events)
	r.unsynced = true
	return s.submit(ctx, r)
}

// Start is Append in two steps, so that a caller with several appends in progress keeps them in order. The function
// returned waits for the outcome.
func (s *Store) Start(
	ctx context.Context, stream string, expected Expected, events []Proposed,
) (wait func() (Result, error), err error) {
	r := appendOf(stream, expected, events)
	if err := s.enqueue(ctx, r); err != nil {
		return nil, err
	}
	return func() (Result, error) { return s.await(ctx, r) }, nil
}

func appendOf(stream string, expected Expected, events []Proposed) *request {
	size := 0
	for _, event := range events {
		size += event.Size()
	}
	return &request{
		kind:     requestAppend,
		stream:   stream,
		expected: expected,
		events:   events,
		bytes:    size,
	}
}
