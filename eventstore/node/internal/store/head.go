package store

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/bloom"
)

// head is the sequencer's state of a stream, stored under the stream's name.
type head struct {
	// id is the position of the stream's first event; 0 before there is one.
	id uint64
	// last is the last revision, MaxRevision after a tombstone, -1 before the first event.
	last int64
	// base is the first revision of the present incarnation: 0, or the first one after a soft delete.
	base uint64
	// changed is the position of the event that last changed this head.
	changed    uint64
	tombstoned bool
	// floor is the revision below which events may have been scavenged, and are not readable whatever the settings.
	floor    uint64
	settings Settings
}

const (
	headVersion    = 1
	flagTombstoned = 1
)

var noHead = head{last: -1}

func (h head) encode(dst []byte) []byte {
	var flags byte
	if h.tombstoned {
		flags = flagTombstoned
	}
	dst = append(dst, headVersion, flags)
	dst = binary.AppendUvarint(dst, h.id)
	dst = binary.AppendUvarint(dst, uint64(h.last+1)) // #nosec G115 -- last is at least -1
	dst = binary.AppendUvarint(dst, h.base)
	dst = binary.AppendUvarint(dst, h.changed)
	dst = binary.AppendUvarint(dst, h.floor)
	dst = binary.AppendUvarint(dst, h.settings.TruncateBefore)
	dst = binary.AppendUvarint(dst, h.settings.MaxCount)
	return binary.AppendUvarint(dst, h.settings.MaxAge)
}

func parseHead(value []byte) (head, error) {
	if len(value) < 2 || value[0] != headVersion || value[1]&^flagTombstoned != 0 {
		return head{}, fmt.Errorf("%w: stream head %x", ErrCorrupt, value)
	}
	h := head{tombstoned: value[1] == flagTombstoned}
	var last uint64
	rest := value[2:]
	for _, field := range []*uint64{
		&h.id, &last, &h.base, &h.changed, &h.floor,
		&h.settings.TruncateBefore, &h.settings.MaxCount, &h.settings.MaxAge,
	} {
		number, n := binary.Uvarint(rest)
		if n <= 0 {
			return head{}, fmt.Errorf("%w: stream head %x", ErrCorrupt, value)
		}
		*field, rest = number, rest[n:]
	}
	if len(rest) > 0 || last > MaxRevision+1 {
		return head{}, fmt.Errorf("%w: stream head %x", ErrCorrupt, value)
	}
	h.last = int64(last - 1) // #nosec G115 -- within [-1, MaxRevision]
	return h, nil
}

// loadHead reads the head of a stream.
func loadHead(reader pebble.Reader, stream string) (head, error) {
	var room [64]byte
	value, closer, err := reader.Get(headKey(room[:0], stream))
	if errors.Is(err, pebble.ErrNotFound) {
		return noHead, nil
	}
	if err != nil {
		return head{}, fmt.Errorf("read stream head: %w", err)
	}
	defer func() { _ = closer.Close() }()
	return parseHead(value)
}

// exists reports whether the stream has events that a reader could ever see again.
func (h head) exists() bool { return h.last >= 0 && !h.tombstoned && !h.settings.softDeleted() }

// lookUpHead reads the head of a stream for the sequencer, with one cursor for each batch: to make one takes longer
// than a look. The cursor does not see what the batch itself writes; the cache has that.
func (s *Store) lookUpHead(stream string) (h head, err error) {
	if s.lookups == nil {
		if s.lookups, err = s.newCursor(); err != nil {
			return head{}, err
		}
	}
	return s.lookups.head(stream)
}

// endLookups closes the cursor of a batch.
func (s *Store) endLookups() error {
	if s.lookups == nil {
		return nil
	}
	cursor := s.lookups
	s.lookups = nil
	return cursor.close()
}

// headFilter is a Bloom filter over the keys of stream heads alone. They are the only keys looked up that are often
// absent; leaving the others out keeps the filters in memory a third of the size.
type headFilter struct{ bloom.FilterPolicy }

// Name is stored with each table, and must change with the filter's content.
func (headFilter) Name() string { return "carillon.heads.bloom" }

// MayContain implements pebble.FilterPolicy.
func (f headFilter) MayContain(kind pebble.FilterType, filter, key []byte) bool {
	return !isHeadKey(key) || f.FilterPolicy.MayContain(kind, filter, key)
}

// NewWriter implements pebble.FilterPolicy.
func (f headFilter) NewWriter(kind pebble.FilterType) pebble.FilterWriter {
	return headFilterWriter{f.FilterPolicy.NewWriter(kind)}
}

type headFilterWriter struct{ pebble.FilterWriter }

// AddKey implements pebble.FilterWriter.
func (w headFilterWriter) AddKey(key []byte) {
	if isHeadKey(key) {
		w.FilterWriter.AddKey(key)
	}
}

func isHeadKey(key []byte) bool { return len(key) > 0 && key[0] == prefixHead }

// headCache keeps the heads of the streams written to last. Only the sequencer uses it, so it needs no lock and may be
// ahead of the applied batches. Heads that the present batch has changed are dirty, and never evicted.
type headCache struct {
	limit   int
	entries map[string]*cachedHead
	order   cachedHead // of use: a ring through this, the most recent first
	dirty   []*cachedHead
	load    func(stream string) (head, error)
}

type cachedHead struct {
	stream string
	head
	dirty      bool
	prev, next *cachedHead
}

func newHeadCache(limit int, load func(string) (head, error)) *headCache {
	c := &headCache{limit: limit, entries: make(map[string]*cachedHead), load: load}
	c.order.prev, c.order.next = &c.order, &c.order
	return c
}

// get returns the head of a stream. It stays valid until the next call of settle, and longer if it is used again.
func (c *headCache) get(stream string) (*cachedHead, error) {
	if cached, ok := c.entries[stream]; ok {
		cached.leave()
		c.first(cached)
		return cached, nil
	}
	h, err := c.load(stream)
	if err != nil {
		return nil, err
	}
	cached := &cachedHead{stream: stream, head: h}
	c.entries[stream] = cached
	c.first(cached)
	return cached, nil
}

func (c *headCache) first(h *cachedHead) {
	h.prev, h.next = &c.order, c.order.next
	h.prev.next, h.next.prev = h, h
}

func (h *cachedHead) leave() {
	h.prev.next, h.next.prev = h.next, h.prev
}

// mark notes that a head has changed and must be part of the present batch.
func (c *headCache) mark(h *cachedHead) {
	if !h.dirty {
		h.dirty = true
		c.dirty = append(c.dirty, h)
	}
}

// applied is called once the dirty heads are in the batch and the batch is applied.
func (c *headCache) applied() {
	for _, h := range c.dirty {
		h.dirty = false
	}
	clear(c.dirty)
	c.dirty = c.dirty[:0]
	for len(c.entries) > c.limit {
		oldest := c.order.prev
		oldest.leave()
		delete(c.entries, oldest.stream)
	}
}
