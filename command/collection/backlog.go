package collection

import (
	"context"
	"sync"
)

// mostUnrecorded is how many happenings may be on their way from pages into the store before no further page is read.
// One page may go beyond it.
const mostUnrecorded = 800

// Backlog counts the happenings that pages have shown and that are not recorded yet. Where sources are read faster than
// what they show is recorded, it has the readers wait: pages that wait to be recorded would fill the memory. The zero
// value is empty, nil counts nothing.
type Backlog struct {
	mu   sync.Mutex
	held int
	room chan struct{} // closed once there is room; nil while nobody waits
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

// full returns nil where there is room, else what is closed once there is.
func (b *Backlog) full() <-chan struct{} {
	if b == nil {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held < mostUnrecorded {
		return nil
	}
	if b.room == nil {
		b.room = make(chan struct{})
	}
	return b.room
}

// hold counts happenings until they are let go of.
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
	if b.held < mostUnrecorded && b.room != nil {
		close(b.room)
		b.room = nil
	}
}
