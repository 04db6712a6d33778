package store

import (
	"sync"
	"sync/atomic"
)

// broadcast wakes everyone who waits, any number of times.
type broadcast struct {
	mu sync.Mutex
	ch chan struct{} // nil while nobody waits
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

// topics wakes those who follow single streams, so that a write costs nothing to the followers of other streams.
type topics struct {
	followed atomic.Int64
	mu       sync.Mutex
	streams  map[string]*topic
}

type topic struct {
	broadcast
	followers int
}

func (t *topics) join(stream string) *topic {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.streams == nil {
		t.streams = make(map[string]*topic)
	}
	joined := t.streams[stream]
	if joined == nil {
		joined = &topic{}
		t.streams[stream] = joined
		t.followed.Add(1)
	}
	joined.followers++
	return joined
}

func (t *topics) leave(stream string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	left := t.streams[stream]
	left.followers--
	if left.followers == 0 {
		delete(t.streams, stream)
		t.followed.Add(-1)
	}
}

func (t *topics) notify(streams []string) {
	if t.followed.Load() == 0 {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, stream := range streams {
		if followed := t.streams[stream]; followed != nil {
			followed.notify()
		}
	}
}
