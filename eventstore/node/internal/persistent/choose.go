package persistent

// chooser picks the consumer for each message.
type chooser struct {
	strategy  Strategy
	consumers []*Consumer
	next      int
	pins      map[uint64]*Consumer // by bucket; forgotten when consumers come or go
}

func (c *chooser) add(consumer *Consumer) {
	c.consumers = append(c.consumers, consumer)
	c.pins = nil
}

func (c *chooser) remove(consumer *Consumer) bool {
	for i, one := range c.consumers {
		if one == consumer {
			c.consumers = append(c.consumers[:i:i], c.consumers[i+1:]...)
			if c.next > i {
				c.next--
			}
			c.pins = nil
			return true
		}
	}
	return false
}

// offer sends a message if the strategy finds a consumer with room. more is false when no consumer has room for
// anything.
func (c *chooser) offer(m *message) (taken, more bool) {
	if c.strategy == Pinned || c.strategy == PinnedByCorrelation {
		return c.pinned(bucketOf(m.event.Pin)).send(m), c.room()
	}
	for range c.consumers {
		c.next %= len(c.consumers)
		if c.consumers[c.next].send(m) {
			if c.strategy == RoundRobin {
				c.next++
			}
			return true, true
		}
		c.next++
	}
	return false, false
}

func (c *chooser) room() bool {
	for _, consumer := range c.consumers {
		if consumer.flying < consumer.capacity {
			return true
		}
	}
	return false
}

func (c *chooser) pinned(bucket uint64) *Consumer {
	if owner := c.pins[bucket]; owner != nil {
		return owner
	}
	owner, most := c.consumers[0], uint64(0)
	for _, consumer := range c.consumers {
		if w := weight(bucket, consumer.id); w >= most {
			owner, most = consumer, w
		}
	}
	if c.pins == nil {
		c.pins = make(map[uint64]*Consumer)
	}
	c.pins[bucket] = owner
	return owner
}
