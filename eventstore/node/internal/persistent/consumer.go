package persistent

import (
	"errors"
	"hash/fnv"
	"time"

	"carillon/eventstore/node/internal/store"
)

// Why a consumer's connection ends.
var (
	// ErrStopped says that the consumer asked to stop.
	ErrStopped = errors.New("the consumer stopped the subscription")
	// ErrDropped says that the group was changed, deleted or restarted.
	ErrDropped = errors.New("the persistent subscription was dropped")
	// ErrTooMany says that the group has as many consumers as it may have.
	ErrTooMany = errors.New("the persistent subscription has its maximum of subscribers")
)

// Delivery is one event handed to a consumer.
type Delivery struct {
	Event   Event
	Retries int32
}

// Peer says who a consumer is.
type Peer struct {
	Name, User, Address string
}

// Consumer is one connection to a group. The group sends it at most as many unanswered events as it has room for.
type Consumer struct {
	group    *Group
	id       string
	peer     Peer
	capacity int
	out      chan Delivery
	ended    chan struct{}
	err      error // set before ended is closed

	// Owned by the group.
	flying   int
	inFlight map[store.EventID]*message
	total    int64
	sampled  sample
	latency  latencies
}

// Deliveries are the events for the consumer.
func (c *Consumer) Deliveries() <-chan Delivery { return c.out }

// Ended is closed when the group is done with the consumer; see Err.
func (c *Consumer) Ended() <-chan struct{} { return c.ended }

// Err is why the group ended the connection. Only call it once Ended is closed.
func (c *Consumer) Err() error { return c.err }

// Ack says that events were processed. Ids that are not in flight to this consumer are ignored.
func (c *Consumer) Ack(ids ...store.EventID) {
	c.group.do(func() {
		for _, id := range ids {
			if m := c.take(id); m != nil {
				c.group.answered(c, m)
				c.group.complete(m)
			}
		}
	})
}

// Action is what to do with events that were not processed.
type Action int

// Actions, by their numbers in the protocol.
const (
	ActionUnknown Action = iota // the node decides: like ActionRetry
	ActionPark
	ActionRetry
	ActionSkip
	ActionStop
)

// Nack says that events were not processed. Where earlier answers have made room, what was never sent goes before them.
func (c *Consumer) Nack(action Action, reason string, ids ...store.EventID) {
	c.group.do(func() {
		c.group.dispatch(time.Now())
		for _, id := range ids {
			m := c.take(id)
			if m == nil {
				continue
			}
			switch action {
			case ActionPark:
				c.group.park(m, onDemand+reason)
			case ActionSkip:
				c.group.complete(m)
			default:
				c.group.retry(m)
			}
		}
		if action == ActionStop {
			c.group.remove(c, ErrStopped)
		}
	})
}

// Close ends the connection. What is in flight goes to other consumers.
func (c *Consumer) Close() {
	c.group.do(func() { c.group.remove(c, ErrStopped) })
}

// send puts a message in flight. It reports false where there is no room.
func (c *Consumer) send(m *message) bool {
	if c.flying >= c.capacity {
		return false
	}
	select {
	case c.out <- Delivery{Event: m.event, Retries: m.retries}:
	default: // still full of what timed out unsent
		return false
	}
	m.consumer, m.next = c, c.inFlight[m.event.ID]
	c.inFlight[m.event.ID] = m
	c.flying++
	c.total++
	return true
}

// take removes a message from what is in flight.
func (c *Consumer) take(id store.EventID) *message {
	m := c.inFlight[id]
	if m == nil {
		return nil
	}
	// The oldest first, where one id is several times in flight.
	var previous *message
	for m.next != nil {
		previous, m = m, m.next
	}
	c.unlink(previous, m)
	return m
}

// drop removes this very message from what is in flight.
func (c *Consumer) drop(m *message) {
	var previous *message
	for at := c.inFlight[m.event.ID]; at != m; at = at.next {
		previous = at
	}
	c.unlink(previous, m)
}

func (c *Consumer) unlink(previous, m *message) {
	switch {
	case previous != nil:
		previous.next = m.next
	case m.next != nil:
		c.inFlight[m.event.ID] = m.next
	default:
		delete(c.inFlight, m.event.ID)
	}
	m.consumer, m.next = nil, nil
	c.flying--
}

// weight decides which consumer a bucket of pinned events belongs to: the one that weighs most. When consumers come
// or go, only the buckets that must move do.
func weight(bucket uint64, consumer string) uint64 {
	h := fnv.New64a()
	var digits [8]byte
	for i := range digits {
		digits[i] = byte(bucket >> (8 * i)) // #nosec G115 -- one byte of it
	}
	_, _ = h.Write(digits[:])
	_, _ = h.Write([]byte(consumer))
	return h.Sum64()
}

const pinBuckets = 1024

func bucketOf(pin string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(pin))
	return h.Sum64() % pinBuckets
}
