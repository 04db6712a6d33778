package inprocess

import (
	"context"
	"sync"

	"google.golang.org/grpc/mem"
)

const (
	window   = 1 << 20 // bytes of messages that may wait for the other side; one message may go beyond it
	overhead = 64      // bytes that a message takes besides what it says
)

// pipe is one direction of a call: what one side has sent and the other has yet to take. One goroutine sends and one
// receives at a time, as gRPC has it.
type pipe struct {
	filled chan struct{} // there is something to take, or the end
	room   chan struct{} // there is room, or the end

	mu       sync.Mutex
	messages []mem.BufferSlice
	first    int // of messages that was not taken
	bytes    int
	end      error // why nothing more comes, after the messages; nil: more may
}

func newPipe() *pipe {
	return &pipe{filled: make(chan struct{}, 1), room: make(chan struct{}, 1)}
}

func signal(c chan struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is about to look
	}
}

// put hands a message over, and with it the reference to its memory. It waits for room, and returns the reason where
// the pipe has ended.
func (p *pipe) put(ctx context.Context, message mem.BufferSlice) error {
	size := message.Len() + overhead
	for {
		p.mu.Lock()
		if end := p.end; end != nil {
			p.mu.Unlock()
			message.Free()
			return end
		}
		if p.bytes == 0 || p.bytes+size <= window {
			p.messages = append(p.messages, message)
			p.bytes += size
			p.mu.Unlock()
			signal(p.filled)
			return nil
		}
		p.mu.Unlock()
		select {
		case <-p.room:
		case <-ctx.Done():
			message.Free()
			return context.Cause(ctx)
		}
	}
}

// take waits for a message. What was put before the end, and the end, come before the context's.
func (p *pipe) take(ctx context.Context) (mem.BufferSlice, error) {
	for over := false; ; {
		p.mu.Lock()
		if p.first < len(p.messages) {
			message := p.messages[p.first]
			p.messages[p.first] = nil
			if p.first++; p.first == len(p.messages) {
				p.messages, p.first = p.messages[:0], 0
			}
			p.bytes -= message.Len() + overhead
			p.mu.Unlock()
			signal(p.room)
			return message, nil
		}
		end := p.end
		p.mu.Unlock()
		switch {
		case end != nil:
			return nil, end
		case over:
			return nil, context.Cause(ctx)
		}
		select {
		case <-p.filled:
		case <-ctx.Done():
			over = true
		}
	}
}

// finish ends the pipe, once.
func (p *pipe) finish(end error) {
	p.mu.Lock()
	if p.end == nil {
		p.end = end
	}
	p.mu.Unlock()
	signal(p.filled)
	signal(p.room)
}
