package store

import "sync"

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
