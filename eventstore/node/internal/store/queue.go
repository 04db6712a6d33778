package store

import (
	"context"
	"sync"
	"sync/atomic"
)

// request is one write on its way through the sequencer. The first to take it decides: the sequencer, or the caller
// that gives up waiting.
type request struct {
	kind     requestKind
	stream   string
	expected Expected
	events   []Proposed
	erase    [][]byte
	above    uint64 // with erase: the stream's floor
	below    uint64 // with erase: the stream's new floor
	erased   uint64 // with erase: bytes of the log
	bytes    int

	unsynced bool // it is answered when it is applied
	taken    atomic.Bool
	done     chan struct{}
	result   Result
	err      error
}

type requestKind uint8

const (
	requestAppend requestKind = iota
	requestDelete
	requestTombstone
	requestErase
)

// Result is the place of a write.
type Result struct {
	// Revision is the stream's last revision; -1 if it has no events.
	Revision int64
	// Position is that of the last event written; 0 if nothing was written.
	Position uint64
}

// queue is where callers leave requests for the sequencer. It is bounded in bytes: who comes too early waits.
type queue struct {
	mu     sync.Mutex
	items  []*request
	bytes  int
	limit  int
	closed bool
	room   broadcast
}

func newQueue(limit int) *queue {
	return &queue{limit: limit}
}

func (q *queue) put(ctx context.Context, r *request) error {
	for {
		q.mu.Lock()
		switch {
		case q.closed:
			q.mu.Unlock()
			return ErrClosed
		case q.bytes < q.limit:
			q.items = append(q.items, r)
			q.bytes += r.bytes
			q.mu.Unlock()
			return nil
		}
		room := q.room.wait()
		q.mu.Unlock()
		select {
		case <-room:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// filled reports whether requests wait.
func (q *queue) filled() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return len(q.items) > 0
}

// take returns all requests there are, and keeps spare, which must be empty, for the next ones.
func (q *queue) take(spare []*request) []*request {
	q.mu.Lock()
	taken := q.items
	q.items, q.bytes = spare, 0
	q.mu.Unlock()
	q.room.notify()
	return taken
}

// close refuses further requests; those already there are still taken.
func (q *queue) close() {
	q.mu.Lock()
	q.closed = true
	q.mu.Unlock()
	q.room.notify()
}

// broadcast wakes everyone who waits, any number of times.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil while no caller waits
}

// wait returns a channel that is closed at the next notify. Take it before looking at what is waited for.
func (b *broadcast) wait() <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch == nil {
		b.ch = make(chan struct{})
	}
	return b.ch
}

func (b *broadcast) notify() {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.ch != nil {
		close(b.ch)
		b.ch = nil
	}
}
