package store

import (
	"bytes"
	"fmt"

	"github.com/google/uuid"
)

// applyMetadata makes the settings in a metadata event those of the stream it describes. A soft-deleted stream whose
// new metadata truncates less than all comes back empty, without the deleted events.
func (q *sequencing) applyMetadata(meta *cachedHead, described string, event Proposed) error {
	record := Record{value: event.value}
	_, data, err := record.Content()
	if err != nil {
		return err
	}
	target, err := q.heads.get(described)
	if err != nil {
		return err
	}
	settings := parseSettings(record.IsJSON(), data)
	base := uint64(target.last + 1) // #nosec G115 -- last is at least -1
	if target.settings.softDeleted() && settings.TruncateBefore < max(base, 1) {
		target.settings = settings
		return q.writeMetadata(meta, target, data, base)
	}
	q.describe(target, settings, meta.changed)
	return nil
}

// describe changes the settings of a stream.
func (q *sequencing) describe(target *cachedHead, settings Settings, position uint64) {
	target.settings, target.changed = settings, position
	q.heads.mark(target)
}

// writeMetadata appends metadata whose truncation mark is the stream's new beginning.
func (q *sequencing) writeMetadata(meta, target *cachedHead, metadata []byte, base uint64) error {
	data, err := withTruncateBefore(metadata, base)
	if err != nil {
		return fmt.Errorf("encode metadata: %w", err)
	}
	position, err := q.appendInternal(meta, MetadataType, data)
	if err != nil {
		return err
	}
	target.base = base
	q.describe(target, parseSettings(true, data), position)
	return nil
}

func (q *sequencing) appendInternal(h *cachedHead, eventType string, data []byte) (uint64, error) {
	event := Propose(EventContent{
		ID:     EventID(uuid.New()),
		Stream: h.stream,
		Type:   eventType,
		JSON:   true,
		Data:   data,
	})
	return q.write(h, uint64(h.last+1), []Proposed{event}) // #nosec G115 -- last is at least -1
}

// lastData returns the data of a stream's last event; nil if there is none.
func (q *sequencing) lastData(h *cachedHead) ([]byte, error) {
	if h.last < 0 {
		return nil, nil
	}
	if h.dirty {
		if err := q.cut(); err != nil {
			return nil, err
		}
	}
	position, _, err := q.getIndex(h.id, uint64(h.last)) // #nosec G115 -- not negative
	if err != nil {
		return nil, err
	}
	record, err := q.get(position)
	if err != nil {
		return nil, err
	}
	_, data, err := record.Content()
	return bytes.Clone(data), err
}
