package store

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
