package esdb

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"google.golang.org/grpc/codes"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore"
)

// What may be on its way to the server at once, unanswered. A server takes in whatever it is sent, so the limit has to
// be here.
const (
	maxUnanswered      = 512
	maxUnansweredBytes = 4 << 20
)

// batches makes the appends of one connection through one BatchAppend call, which is opened anew when it has ended.
type batches struct {
	link    *link
	refused atomic.Bool // the server knows the method, and doesn't take it
	mu      sync.Mutex
	call    *batchCall
}

func newBatches(l *link) *batches { return &batches{link: l} }

func (b *batches) append(ctx context.Context, stream string, expected eventstore.Revision, events []proposal) (eventstore.Appended, error) {
	if err := ctx.Err(); err != nil {
		return eventstore.Appended{}, err // an answer that is quicker than the look at the context would be taken for one
	}
	call, err := b.open()
	if err != nil {
		return eventstore.Appended{}, err
	}
	within := callTimeout
	if deadline, ok := ctx.Deadline(); ok {
		within = min(within, time.Until(deadline))
	}
	p := &pending{began: time.Now(), answer: make(chan batchAnswer, 1)}
	if err := call.submit(p, stream, expected, events, within); err != nil {
		return eventstore.Appended{}, err
	}
	select {
	case answer := <-p.answer:
		if answer.err == errWrongVersion { //nolint:errorlint // a mark, never wrapped
			return eventstore.Appended{}, &eventstore.WrongRevisionError{Stream: stream, Expected: expected}
		}
		return answer.appended, answer.err
	case <-ctx.Done():
		call.abandon(p)
		return eventstore.Appended{}, ctx.Err()
	}
}

// open gives the call that is open, or opens one.
func (b *batches) open() (*batchCall, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.call != nil && !b.call.over() {
		return b.call, nil
	}
	call, err := b.begin()
	if err == nil {
		b.call = call
	}
	return call, err
}

// begin opens a call.
func (b *batches) begin() (*batchCall, error) {
	ctx, cancel := context.WithCancel(leading(context.Background())) // the connection's end ends it
	stream, err := b.link.streams.BatchAppend(ctx)
	if err != nil {
		cancel()
		return nil, refused(err, nil)
	}
	call := &batchCall{
		stream: stream, cancel: cancel, heard: b.link.heard, most: rand.Uint64(), //nolint:gosec // only has to differ from other calls' in a log
		pending: map[uint64]*pending{}, work: make(chan struct{}, 1), ended: make(chan struct{}),
	}
	go call.send()
	go call.receive()
	return call, nil
}

// batchCall is one BatchAppend call with the appends that are unanswered.
type batchCall struct {
	stream streams.Streams_BatchAppendClient
	cancel context.CancelFunc
	heard  *atomic.Uint64
	most   uint64        // half of each correlation id, the other half counts
	work   chan struct{} // something to send, or room to send it
	ended  chan struct{} // closed when each append has its answer, or will never have one

	mu      sync.Mutex
	last    uint64
	queue   []*pending          // not sent yet
	pending map[uint64]*pending // sent or not
	sent    int                 // unanswered,
	bytes   int                 // and their size
	full    bool                // there was no room for all that is queued
	err     error               // why it has ended
}

// pending is an append that waits for its answer.
type pending struct {
	id        uint64
	message   *streams.BatchAppendReq
	size      int
	began     time.Time
	abandoned bool // before it was sent
	answer    chan batchAnswer
}

func (c *batchCall) over() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err != nil
}

// submit queues an append.
func (c *batchCall) submit(p *pending, stream string, expected eventstore.Revision, events []proposal, within time.Duration) error {
	c.mu.Lock()
	c.last++
	p.id = c.last
	c.mu.Unlock()
	var err error
	if p.message, err = batchRequest(c.most, p.id, stream, expected, within, events); err != nil {
		return err
	}
	p.size = proto.Size(p.message)
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err != nil {
		return c.err
	}
	c.pending[p.id] = p
	c.queue = append(c.queue, p)
	c.wake()
	return nil
}

func (c *batchCall) wake() {
	select {
	case c.work <- struct{}{}:
	default: // it is about to look
	}
}

// abandon forgets an append whose caller waits no longer. A server that has not answered in all the time that any append
// gets won't answer the others either, and what it owes would keep them from being sent.
func (c *batchCall) abandon(p *pending) {
	c.mu.Lock()
	p.abandoned = true
	c.mu.Unlock()
	time.AfterFunc(callTimeout-time.Since(p.began), func() {
		c.mu.Lock()
		_, owed := c.pending[p.id]
		c.mu.Unlock()
		if owed {
			c.cancel()
		}
	})
}

// send sends what is queued, as far as there is room.
func (c *batchCall) send() {
	var taken []*pending
	for {
		select {
		case <-c.work:
		case <-c.stream.Context().Done():
			return // receive says why
		}
		taken = c.take(taken[:0])
		for _, p := range taken {
			if c.stream.Send(p.message) != nil {
				return
			}
		}
		clear(taken)
	}
}

// take takes from the queue what there is room for.
func (c *batchCall) take(into []*pending) []*pending {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.full = false
	n := 0
	for ; n < len(c.queue); n++ {
		p := c.queue[n]
		if p.abandoned {
			delete(c.pending, p.id)
			continue
		}
		if c.sent > 0 && (c.sent == maxUnanswered || c.bytes+p.size > maxUnansweredBytes) {
			c.full = true
			break
		}
		c.sent++
		c.bytes += p.size
		into = append(into, p)
	}
	c.queue = slices.Delete(c.queue, 0, n)
	return into
}

// receive hands out the answers, until the call ends.
func (c *batchCall) receive() {
	defer c.cancel()
	for {
		message, err := c.stream.Recv()
		if err != nil {
			c.end(ended(c.stream, err))
			return
		}
		answer := answerOf(message)
		c.heard.Add(1)
		c.mu.Lock()
		p := c.pending[answer.id]
		if p != nil && answer.most == c.most {
			delete(c.pending, answer.id)
			c.sent--
			c.bytes -= p.size
			if c.full {
				c.wake()
			}
			p.answer <- answer
		}
		c.mu.Unlock()
	}
}

// end fails all that is unanswered. Each caller tries again by itself, where that makes sense.
func (c *batchCall) end(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.err = err
	for _, p := range c.pending {
		p.answer <- batchAnswer{err: err}
	}
	c.pending, c.queue = nil, nil
	close(c.ended)
}

// errWrongVersion marks an answer; the caller knows stream and expectation.
var errWrongVersion = &refusal{code: codes.FailedPrecondition, message: "wrong expected version"}
