package esdb

import (
	"context"
	"errors"
	"fmt"
	"time"

	"google.golang.org/grpc/codes"

	"carillon/eventstore"
)

const (
	// orderedWithin is the time that the server is given for each. It is long because an append which the server gives
	// up on, while it carries out the next one, is out of its place in the log.
	orderedWithin = 10 * time.Minute
	// orderedStall is how long the oldest may be unanswered before all are sent again: a real server leaves an append
	// that it was sent a second time unanswered for as long as the first one is not replicated.
	orderedStall = 10 * time.Second
	orderedPause = 250 * time.Millisecond
	// DefaultWindow is how many appends of an Ordered are on their way at once.
	DefaultWindow = maxUnanswered
)

// Ordered makes appends that stand in the log in the order in which they were given, many of which are on their way at
// once, through one BatchAppend call.
//
// A server carries the appends of one call out in their order. So when the call breaks, what was carried out is always
// the first part of what was sent: all that is unanswered is sent again, in order, and of an append that was carried out
// before nothing is written, as each says ids and an expected revision. It is for one goroutine.
type Ordered struct {
	store    *Store
	ctx      context.Context
	end      func()
	window   int
	patience time.Duration

	link    *link
	call    *batchCall // nil where there is none, or where the server takes no batches
	open    []*ordered // unanswered, oldest first
	bytes   int
	failure error     // nothing can be appended after it
	moved   time.Time // when something was last answered
}

// ordered is an append that is unanswered.
type ordered struct {
	stream   string
	expected eventstore.Revision
	events   []proposal
	bytes    int
	appended func()
	waiting  *pending // nil where it has not been sent
	done     bool
}

// Ordered begins appends in order. At most window of them are on their way at once; 0 means DefaultWindow. A server that
// can't be reached, or has no leader, is waited for as long as patience says since the last answer. It must be closed.
func (s *Store) Ordered(ctx context.Context, window int, patience time.Duration) (*Ordered, error) {
	ctx, end, err := s.begin(ctx, 0)
	if err != nil {
		return nil, err
	}
	if window <= 0 {
		window = DefaultWindow
	}
	return &Ordered{store: s, ctx: ctx, end: end, window: window, patience: patience, moved: time.Now()}, nil
}

// Append puts an append behind those that were given before. appended is called once it took place, by this or a later
// call. The error may be that of an earlier append, and names its stream; after an error nothing more is appended. Of
// what is on its way then, anything may have taken place.
func (o *Ordered) Append(stream string, expected eventstore.Revision, entries []Entry, appended func()) error {
	next := &ordered{stream: stream, expected: expected, events: proposals(entries), appended: appended}
	for i := range entries {
		next.bytes += len(entries[i].Data) + len(entries[i].Metadata)
	}
	if len(o.open) == 0 {
		o.moved = time.Now()
	}
	for len(o.open) > 0 && (len(o.open) >= o.window || o.bytes+next.bytes > maxUnansweredBytes || o.answered()) {
		if err := o.settle(); err != nil {
			return err
		}
	}
	if o.failure != nil {
		return o.failure
	}
	o.open, o.bytes = append(o.open, next), o.bytes+next.bytes
	if o.call != nil {
		return o.fail(o.submit(next))
	}
	return nil // it is sent when it is waited for
}

// Flush waits until everything is answered.
func (o *Ordered) Flush() error {
	for len(o.open) > 0 && o.failure == nil {
		if err := o.settle(); err != nil {
			return err
		}
	}
	return o.failure
}

// Close ends what is on its way.
func (o *Ordered) Close() {
	o.hangUp()
	o.end()
}

// answered reports whether waiting for the oldest would not take long.
func (o *Ordered) answered() bool {
	return o.open[0].waiting == nil || len(o.open[0].waiting.answer) > 0
}

// fail ends it all, where there is an error.
func (o *Ordered) fail(err error) error {
	if err != nil && o.failure == nil {
		o.failure = err
	}
	return o.failure
}

// settle waits for the answer to the oldest, and sees to it that there is one.
func (o *Ordered) settle() error {
	if o.failure != nil {
		return o.failure
	}
	oldest := o.open[0]
	for {
		err := o.await(oldest)
		switch {
		case err == nil:
			o.open[0] = nil
			o.open, o.bytes, o.moved = o.open[1:], o.bytes-oldest.bytes, time.Now()
			oldest.appended()
			return nil
		case o.ctx.Err() != nil:
			return o.fail(fmt.Errorf("%w: %w", eventstore.ErrUnavailable, o.ctx.Err()))
		case errors.Is(err, errWrongVersion):
			err = &eventstore.WrongRevisionError{Stream: oldest.stream, Expected: oldest.expected}
		case codeOf(err) == codes.Unimplemented && o.link != nil && o.link.batches != nil:
			o.link.batches.refused.Store(true)
			o.hangUp()
			continue
		}
		if told := translate(err); !errors.Is(told, eventstore.ErrUnavailable) || time.Since(o.moved) > o.patience {
			return o.fail(fmt.Errorf("append to %s after revision %d: %w", oldest.stream, oldest.expected, told))
		}
		o.again(err)
	}
}

// await waits for an answer once, and sends what has not been sent.
func (o *Ordered) await(a *ordered) error {
	if a.done {
		return nil
	}
	if o.call == nil {
		if err := o.connect(); err != nil {
			return err
		}
	}
	if o.call == nil { // one by one
		_, err := o.store.append(o.ctx, a.stream, a.expected, a.events)
		return err
	}
	if a.waiting == nil {
		return &refusal{code: codes.Unavailable, message: "the connection was lost"}
	}
	w := o.store.waits(o.link, func(error) {})
	defer w.stop()
	stall := time.NewTimer(orderedStall)
	defer stall.Stop()
	select {
	case answer := <-a.waiting.answer:
		a.waiting = nil
		return answer.err
	case <-o.ctx.Done():
		return o.ctx.Err()
	case <-stall.C:
		return &refusal{code: codes.DeadlineExceeded, message: "no answer"}
	}
}

// connect opens a call, and sends all that is unanswered.
func (o *Ordered) connect() error {
	l, err := o.store.connected(o.ctx)
	if err != nil {
		return err
	}
	o.link = l
	if l.batches == nil || l.batches.refused.Load() {
		return nil
	}
	if o.call, err = l.batches.begin(); err != nil {
		return err
	}
	for _, a := range o.open {
		if a.done {
			continue
		}
		if err := o.submit(a); err != nil {
			return err
		}
	}
	return nil
}

// submit sends an append. That the call has ended is no error: waiting for the answer will tell.
func (o *Ordered) submit(a *ordered) error {
	a.waiting = &pending{began: time.Now(), answer: make(chan batchAnswer, 1)}
	err := o.call.submit(a.waiting, a.stream, a.expected, a.events, orderedWithin)
	if errors.Is(err, errNoText) {
		return err
	}
	if err != nil {
		a.waiting.answer <- batchAnswer{err: err}
	}
	return nil
}

// hangUp ends the call, and waits until nothing more is sent through it.
func (o *Ordered) hangUp() {
	if o.call == nil {
		return
	}
	o.call.cancel()
	<-o.call.ended
	o.call = nil
	for _, a := range o.open {
		if a.waiting == nil {
			continue
		}
		select {
		case answer := <-a.waiting.answer:
			a.done = answer.err == nil
		default:
		}
		a.waiting = nil
	}
}

// again gives up a call that failed. The next one may go to another member.
func (o *Ordered) again(err error) {
	failed := o.link
	o.hangUp()
	if failed == nil || !o.store.elsewhere(o.ctx, failed, err) {
		pause(o.ctx, orderedPause)
	}
}
