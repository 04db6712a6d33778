package node

import (
	"sync"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore/node/internal/store"
)

// unfinished are the appends of one BatchAppend call whose last message is still to come. One whose deadline passes
// before is answered and dropped; its later messages are ignored.
type unfinished struct {
	mu      sync.Mutex
	open    map[store.EventID]*batch // by correlation id; nil means dropped
	bytes   int
	expired chan *batch
	ended   <-chan struct{}
}

func newUnfinished(ended <-chan struct{}) *unfinished {
	return &unfinished{open: map[store.EventID]*batch{}, expired: make(chan *batch), ended: ended}
}

// take adds a message, and returns the append that it completes; nil if more messages are to come.
func (u *unfinished) take(n *Node, message *streams.BatchAppendReq) (*batch, error) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key, err := eventID(message.GetCorrelationId())
	if err != nil {
		return nil, err
	}
	b, known := u.open[key]
	if known && b == nil {
		if message.GetIsFinal() {
			delete(u.open, key)
			u.bytes -= len(key)
		}
		return nil, nil //nolint:nilnil // it was answered
	}
	if b == nil {
		b = &batch{id: message.GetCorrelationId(), request: appendRequest{quirks: n.config.Quirks, shared: n.shared.Load()}}
	}
	if options := message.GetOptions(); options != nil {
		b.open(options, n.config.Now())
	}
	b.add(message.GetProposedMessages())
	if message.GetIsFinal() {
		delete(u.open, key)
		u.bytes -= b.bytes
		if b.timer != nil {
			b.timer.Stop()
		}
		return b, nil
	}
	u.open[key] = b
	size := proto.Size(message)
	b.bytes += size
	if u.bytes += size; u.bytes > maxUnfinishedBytes {
		return nil, failure(codes.ResourceExhausted, "the unfinished appends of this call take too much memory")
	}
	if !b.until.IsZero() && b.timer == nil {
		b.timer = time.AfterFunc(b.until.Sub(n.config.Now()), func() { u.expire(key, b) })
	}
	return nil, nil //nolint:nilnil // there is more to come
}

func (u *unfinished) expire(key store.EventID, b *batch) {
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

// stop drops unfinished appends.
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
