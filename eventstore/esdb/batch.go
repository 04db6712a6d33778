package esdb

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/EventStore/EventStore-Client-Go/v4/protos/streams"
	"github.com/google/uuid"
	"google.golang.org/protobuf/proto"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// Limits of the unanswered appends on their way to the server. A server takes in all that it is sent.
const (
	maxUnanswered      = 512
	maxUnansweredBytes = 4 << 20
)

// linger bounds how long an append that lingers is held back. It is sent earlier with one that does not, or when
// maxLingering are held: appends that come together cost a server half as much processor time.
const (
	linger       = 10 * time.Millisecond
	maxLingering = 16
)

// batch is one BatchAppend call. The server carries appends out in the order in which they were submitted.
type batch struct {
	stream streams.Streams_BatchAppendClient
	cancel context.CancelFunc
	heard  *atomic.Uint64
	stall  time.Duration // without any answer, after which the call ends
	queue  chan *pending
	room   chan struct{} // there may be some
	ended  chan struct{} // closed when no answer comes any more

	mu         sync.Mutex
	unanswered map[uuid.UUID]*pending
	bytes      int // theirs
	watchdog   *time.Timer
	err        error // why it has ended
}

// pending is an append that was submitted.
type pending struct {
	*proposal

	id      uuid.UUID
	message *streams.BatchAppendReq
	size    int                           // of the message
	answer  chan *streams.BatchAppendResp // has room for it
}

// beginBatch opens a call. queue is how many appends it takes that there is no room for yet.
func (l *link) beginBatch(queue int, stall time.Duration) (*batch, error) {
	ctx, cancel := context.WithCancel(leading(context.Background())) // the connection's end ends it
	stream, err := l.streams.BatchAppend(ctx)
	if err != nil {
		cancel()
		return nil, refused(err, nil)
	}
	b := &batch{
		stream:     stream,
		cancel:     cancel,
		heard:      l.heard,
		stall:      stall,
		queue:      make(chan *pending, queue),
		room:       make(chan struct{}, 1),
		ended:      make(chan struct{}),
		unanswered: map[uuid.UUID]*pending{},
		watchdog:   time.AfterFunc(stall, cancel),
	}
	b.watchdog.Stop() // until something is sent
	go func() {
		if panics.Catch(part, func() error { b.send(); return nil }) != nil {
			b.cancel()
		}
	}()
	go panics.Func(part, b.receive)()
	return b, nil
}

// part names the client where it panics.
const part = "event store client"

// appendTogether appends by the call that all appends of the connection share. An ended call is replaced.
func (l *link) appendTogether(ctx context.Context, p *proposal, within time.Duration) (eventstore.Appended, error) {
	l.mu.Lock()
	var err error
	if l.batch == nil || l.batch.over() {
		l.batch, err = l.beginBatch(0, callTimeout)
	}
	b := l.batch
	l.mu.Unlock()
	if err != nil {
		return eventstore.Appended{}, err
	}
	sent, err := b.submit(ctx, p, within)
	if err != nil {
		return eventstore.Appended{}, err
	}
	return b.await(ctx, sent)
}

func (b *batch) over() bool {
	select {
	case <-b.ended:
		return true
	default:
		return false
	}
}

// submit puts an append behind those that were submitted before.
func (b *batch) submit(ctx context.Context, p *proposal, within time.Duration) (*pending, error) {
	sent := &pending{proposal: p, id: uuid.New(), answer: make(chan *streams.BatchAppendResp, 1)}
	sent.message = p.message(sent.id, within)
	sent.size = proto.Size(sent.message)
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	select {
	case b.queue <- sent:
		return sent, nil
	case <-b.ended:
		return nil, b.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// await waits for the answer to an append. The append may take place after an error.
func (b *batch) await(ctx context.Context, p *pending) (eventstore.Appended, error) {
	select {
	case answer := <-p.answer:
		return p.resultOf(answer)
	case <-b.ended:
	case <-ctx.Done():
		return eventstore.Appended{}, ctx.Err()
	}
	select {
	case answer := <-p.answer:
		return p.resultOf(answer)
	default:
		return eventstore.Appended{}, b.err
	}
}

// send sends what is submitted, until the call ends; receive finds out why it has.
func (b *batch) send() {
	var held []*pending
	var due <-chan time.Time
	for {
		select {
		case p := <-b.queue:
			if held = append(held, p); p.lingers && len(held) < maxLingering {
				if len(held) == 1 {
					due = time.After(linger)
				}
				continue
			}
		case <-due:
		case <-b.stream.Context().Done():
			return
		}
		for _, p := range held {
			if !b.sendOne(p) {
				return
			}
		}
		clear(held) // their data may be large
		held, due = held[:0], nil
	}
}

// sendOne sends an append as soon as there is room, and reports whether it could.
func (b *batch) sendOne(p *pending) bool {
	for !b.admit(p) {
		select {
		case <-b.room:
		case <-b.stream.Context().Done():
			return false
		}
	}
	return b.stream.Send(p.message) == nil
}

// admit reports whether there is room for an append, and then counts it.
func (b *batch) admit(p *pending) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := len(b.unanswered)
	if n > 0 && (n == maxUnanswered || b.bytes+p.size > maxUnansweredBytes) {
		return false
	}
	if n == 0 {
		b.watchdog.Reset(b.stall)
	}
	b.unanswered[p.id], b.bytes = p, b.bytes+p.size
	return true
}

// receive hands out the answers, until the call ends.
func (b *batch) receive() {
	err := panics.Catch(part, b.answers)
	b.err = ended(b.stream, err)
	b.cancel()
	b.watchdog.Stop()
	close(b.ended)
}

func (b *batch) answers() error {
	for {
		answer, err := b.stream.Recv()
		if err != nil {
			return err
		}
		b.heard.Add(1)
		b.finish(idOf(answer.GetCorrelationId()), answer)
	}
}

func (b *batch) finish(id uuid.UUID, answer *streams.BatchAppendResp) {
	b.mu.Lock()
	defer b.mu.Unlock()
	p := b.unanswered[id]
	if p == nil {
		return
	}
	delete(b.unanswered, id)
	b.bytes -= p.size
	p.answer <- answer
	b.watchdog.Stop()
	if len(b.unanswered) > 0 {
		b.watchdog.Reset(b.stall)
	}
	select {
	case b.room <- struct{}{}:
	default: // send is about to look
	}
}
