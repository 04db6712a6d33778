package node

import (
	"bytes"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"carillon/eventstore/node/internal/wire"
)

// unfinished are the appends of one BatchAppend call whose last message is still to come. One whose deadline passes
// before is answered and dropped; what still comes of it is ignored.
type unfinished struct {
	mu      sync.Mutex
	open    map[string]*batch // nil: dropped
	bytes   int
	expired chan *batch
	ended   <-chan struct{}
}

func newUnfinished(ended <-chan struct{}) *unfinished {
	return &unfinished{open: map[string]*batch{}, expired: make(chan *batch), ended: ended}
}

// take takes in a message, and returns the append that it completes; nil where there is more to come.
func (u *unfinished) take(n *Node, message *wire.BatchRequest, size int) (*batch, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := string(message.ID)
	b, known := u.open[key]
	if known && b == nil {
		if message.Final {
			delete(u.open, key)
			u.bytes -= len(key)
		}
		return nil, nil //nolint:nilnil // it was answered
	}
	if b == nil {
		b = &batch{id: bytes.Clone(message.ID), request: appendRequest{quirks: n.config.Quirks, shared: n.shared.Load()}}
	}
	if message.HasOptions {
		b.open(message)
	}
	b.add(message)
	if message.Final {
		delete(u.open, key)
		u.bytes -= b.bytes
		if b.timer != nil {
			b.timer.Stop()
		}
		return b, nil
	}
	u.open[key] = b
	b.bytes += size
	if u.bytes += size; u.bytes > maxUnfinishedBytes {
		return nil, failure(codes.ResourceExhausted, "the unfinished appends of this call take too much memory")
	}
	if left, ok := b.left(n.config.Now()); ok && b.timer == nil {
		b.timer = time.AfterFunc(left, func() { u.expire(key, b) })
	}
	return nil, nil //nolint:nilnil // there is more to come
}

// left is how long an append may still take; false where it has no deadline.
func (b *batch) left(now time.Time) (time.Duration, bool) {
	if b.within > 0 {
		return b.within, true
	}
	return b.until.Sub(now), !b.until.IsZero()
}

func (u *unfinished) expire(key string, b *batch) {
	u.mu.Lock()
	late := u.open[key] == b
	if late {
		u.open[key] = nil
		u.bytes += len(key) - b.bytes
	}
	u.mu.Unlock()
	if !late {
		return
	}
	select {
	case u.expired <- b:
	case <-u.ended:
	}
}

// stop lets go of what was never finished.
func (u *unfinished) stop() {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, b := range u.open {
		if b != nil && b.timer != nil {
			b.timer.Stop()
		}
	}
	clear(u.open)
}
