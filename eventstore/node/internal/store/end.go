package store

import (
	"context"
	"fmt"

	"github.com/google/uuid"
)

// checkDelete compares the expectation of a delete with the head. There is no idempotence: nothing identifies it.
func (q *sequencing) checkDelete(r *request, h, meta *cachedHead) error {
	if err := q.refuseTombstoned(h); err != nil {
		return err
	}
	ok := false
	switch r.expected.kind {
	case expectAny:
		ok = true
	case expectNoStream:
		ok = !h.exists()
	case expectExists:
		if h.settings.softDeleted() {
			return ErrStreamDeleted
		}
		ok = h.last >= 0 || meta.last >= 0
	case expectRevision:
		ok = h.last >= 0 && r.expected.revision == uint64(h.last)
	case expectUnset:
		return fmt.Errorf("%w: no expected revision", ErrInvalid)
	}
	if !ok {
		return r.wrong(h)
	}
	return nil
}

func (q *sequencing) decideDelete(r *request) error {
	h, err := q.heads.get(r.stream)
	if err != nil {
		return err
	}
	meta, err := q.heads.get(MetadataStream(r.stream))
	if err != nil {
		return err
	}
	if err := q.checkDelete(r, h, meta); err != nil {
		return err
	}
	if h.last < 0 && meta.last < 0 {
		return r.wrong(h) // there is nothing to delete, whatever was expected
	}
	data, err := withTruncateBefore(nil, MaxRevision)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	if r.result.Position, err = q.appendInternal(meta, MetadataType, data); err != nil {
		return err
	}
	r.result.Revision = h.last
	q.describe(h, parseSettings(true, data), r.result.Position)
	return nil
}

func (q *sequencing) decideTombstone(r *request) error {
	h, err := q.heads.get(r.stream)
	if err != nil {
		return err
	}
	meta, err := q.heads.get(MetadataStream(r.stream))
	if err != nil {
		return err
	}
	if err := q.checkDelete(r, h, meta); err != nil {
		return err
	}
	event := Propose(EventContent{ID: EventID(uuid.New()), Stream: r.stream, Type: TombstoneType})
	if r.result.Position, err = q.write(h, MaxRevision, []Proposed{event}); err != nil {
		return err
	}
	h.tombstoned = true
	r.result.Revision = h.last
	return nil
}

// Delete hides all events of a stream, which must have some or metadata at least; it may be written to again and then
// goes on with the next revision.
func (s *Store) Delete(ctx context.Context, stream string, expected Expected) (Result, error) {
	return s.submit(ctx, &request{kind: requestDelete, stream: stream, expected: expected})
}

// Tombstone ends a stream permanently.
func (s *Store) Tombstone(ctx context.Context, stream string, expected Expected) (Result, error) {
	return s.submit(ctx, &request{kind: requestTombstone, stream: stream, expected: expected})
}
