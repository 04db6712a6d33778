package esdb

import (
	"context"
	"fmt"
	"iter"
	"time"

	"google.golang.org/grpc/codes"

	"carillon/eventstore"
)

const (
	// orderedWithin is the time that the server is given for each. It is long because an append which the server gives
	// up on, while it carries out the next one, is out of its place in the log.
	orderedWithin = 10 * time.Minute
	// orderedStall is how long nothing may be answered before all is sent again: a real server leaves an append that it
	// was sent a second time unanswered for as long as the first one is not replicated.
	orderedStall = 10 * time.Second
)

// Ordered is an append of AppendInOrder.
type Ordered struct {
	Stream   string
	Expected eventstore.Revision
	Entries  []Entry
	Appended func() // called when it took place. Optional.

	proposal *proposal
	sent     *pending // nil means not in the current call
}

// AppendInOrder makes appends that stand in the log in the order of the sequence, at most window of which are on their
// way at once; 0 means as many as a connection allows. A nil in the sequence waits until all before it took place.
// After an error, which names the stream, anything that was on its way may have taken place.
//
// The appends go through one BatchAppend call, which a server carries out in its order. So when the call breaks, the
// first part of the sent appends was carried out: all unanswered ones are sent again, in order, and of an append that
// was carried out before nothing is written, as each has ids and an expected revision.
func (s *Store) AppendInOrder(ctx context.Context, window int, appends iter.Seq[*Ordered]) error {
	if window <= 0 {
		window = maxUnanswered
	}
	next, stop := iter.Pull(appends)
	defer stop()
	o := &ordering{next: next, window: window}
	_, err := led(ctx, s, func(ctx context.Context, l *link, w *wait) (none struct{}, err error) {
		return none, o.run(ctx, l, w)
	})
	return err
}

// ordering is the state of AppendInOrder over its calls.
type ordering struct {
	next   func() (*Ordered, bool)
	window int
	open   []*Ordered // taken from the sequence and unanswered, oldest first
	bytes  int
	full   bool // all in open must be answered before more is taken
	over   bool // the sequence has ended

	failure error // of an append that can't be sent
}

// run makes appends until all are answered or a call breaks: by one call or, where the server refuses batches, by a
// call each.
func (o *ordering) run(ctx context.Context, l *link, w *wait) error {
	if o.failure != nil {
		return o.failure
	}
	if !l.noBatches.Load() {
		err := o.together(ctx, l, w)
		if codeOf(err) != codes.Unimplemented {
			return err
		}
		l.noBatches.Store(true)
	}
	return o.serve(ctx, l, w, nil)
}

func (o *ordering) together(ctx context.Context, l *link, w *wait) error {
	call, err := l.beginBatch(o.window, orderedStall)
	if err != nil {
		return err
	}
	defer o.hangUp(call)
	for _, one := range o.open {
		if err := one.submit(ctx, call); err != nil {
			return err
		}
	}
	return o.serve(ctx, l, w, call)
}

// serve takes appends and waits for their answers, until the sequence ends. Without a call each is a call of its own.
func (o *ordering) serve(ctx context.Context, l *link, w *wait, call *batch) error {
	for {
		waited := w.pause()
		err := o.take(ctx, call)
		w.resume(waited)
		if err != nil || len(o.open) == 0 {
			return err
		}
		oldest := o.open[0]
		if call != nil {
			_, err = call.await(ctx, oldest.sent)
		} else {
			_, err = l.appendAlone(ctx, oldest.proposal)
		}
		if err != nil {
			return fmt.Errorf("append to %s after revision %d: %w", oldest.Stream, oldest.Expected, err)
		}
		o.answered()
		w.restart()
	}
}

// take takes from the sequence what may be on its way, and sends it.
func (o *ordering) take(ctx context.Context, call *batch) (err error) {
	if len(o.open) == 0 {
		o.full = false
	}
	for !o.full && !o.over && len(o.open) < o.window && o.bytes < maxUnansweredBytes {
		if len(o.open) > 0 && call != nil && len(o.open[0].sent.answer) > 0 {
			return nil // it is settled first
		}
		one, more := o.next()
		switch {
		case !more:
			o.over = true
			continue
		case one == nil:
			o.full = len(o.open) > 0
			continue
		}
		if one.proposal, err = proposed(one.Stream, one.Expected, one.Entries); err != nil {
			o.failure = fmt.Errorf("append to %s: %w", one.Stream, err)
			return o.failure
		}
		o.open, o.bytes = append(o.open, one), o.bytes+one.proposal.bytes
		if err := one.submit(ctx, call); err != nil {
			return err
		}
	}
	return nil
}

func (o *Ordered) submit(ctx context.Context, call *batch) (err error) {
	if call != nil {
		o.sent, err = call.submit(ctx, o.proposal, orderedWithin)
	}
	return err
}

// answered settles the oldest.
func (o *ordering) answered() {
	oldest := o.open[0]
	o.open[0] = nil
	o.open, o.bytes = o.open[1:], o.bytes-oldest.proposal.bytes
	if oldest.Appended != nil {
		oldest.Appended()
	}
}

// hangUp ends a call, waits until nothing more is sent through it, and settles what it has answered.
func (o *ordering) hangUp(call *batch) {
	call.cancel()
	<-call.ended
	for len(o.open) > 0 && o.open[0].sent != nil && len(o.open[0].sent.answer) > 0 {
		if _, err := call.await(context.Background(), o.open[0].sent); err != nil {
			return
		}
		o.answered()
	}
}
