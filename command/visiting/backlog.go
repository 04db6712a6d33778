package visiting

import (
	"context"
	"sync"
)

// maxUnrecorded limits the happenings that are being recorded before the next page is read. A single page may exceed
// it.
const maxUnrecorded = 800

// Backlog counts the happenings that pages have shown and that are not recorded yet. It delays readers that are faster
// than the recording, because waiting pages fill the memory. The zero value is empty; a nil Backlog counts nothing.
type Backlog struct {
	mu   sync.Mutex
	held int
	room chan struct{} // closed when there is room; nil if no reader waits
}

// Wait waits until a page may be read. It fails only with the context's cause.
func (b *Backlog) Wait(ctx context.Context) error {
	for {
		room := b.full()
		if room == nil {
			return nil
		}
		select {
		case <-room:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// full returns nil if there is room, else a channel that is closed when there is.
func (b *Backlog) full() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held < maxUnrecorded {
		return nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// hold counts n happenings until letGo is called.
func (b *Backlog) hold(n int) (letGo func()) {
	if b == nil || n == 0 {
		return func() {}
	}
	b.add(n)
	return func() { b.add(-n) }
}

func (b *Backlog) add(n int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held += n
	if b.held < maxUnrecorded && b.room != nil {
		close(b.room)
		b.room = nil
	}
}
