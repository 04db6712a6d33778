package eventstore

import (
	"context"
	"errors"
	"iter"
	"log/slog"
	"time"
)

const (
	minBackoff = 50 * time.Millisecond
	maxBackoff = 5 * time.Second
)

// Follow is FollowUnbroken for a subscriber that need not know when the connection is broken.
func Follow(ctx context.Context, store Store, after Position, filter Filter, log *slog.Logger) iter.Seq[Message] {
	return FollowUnbroken(ctx, store, after, filter, log, func() {})
}

// Between yields the events after a position, up to another one, in global order. The sequence ends after the first
// error.
func Between(ctx context.Context, store Store, after, end Position, filter Filter) iter.Seq2[*Recorded, error] {
	return func(yield func(*Recorded, error) bool) {
		if !after.Before(end) {
			return
		}
		for message, err := range store.Subscribe(ctx, after, filter) {
			switch {
			case err != nil:
				yield(nil, err)
				return
			case message.CaughtUp, end.Before(message.Position),
				message.Event != nil && !yield(message.Event, nil), message.Position == end:
				return
			}
		}
		if err := ctx.Err(); err != nil {
			yield(nil, err)
		}
	}
}

// FollowUnbroken is Subscribe under supervision: when the connection breaks or the store restarts, it subscribes again
// after the last position it yielded, with a growing pause, until the context ends. It never yields an event twice. It
// ends before the context does, with a line in the log, if the store does not have that position (ErrInvalidPosition),
// or ends before it after the connection broke: it is another store by then, or was restored from an older backup. Some
// servers refuse such a position each time, others deliver nothing. It calls broken when the connection breaks: until
// it has caught up again, events may be stored that it has yet to yield.
func FollowUnbroken(
	ctx context.Context, store Store, after Position, filter Filter, log *slog.Logger, broken func(),
) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		f := &following{
			store:   store,
			filter:  filter,
			after:   after,
			last:    after,
			backoff: minBackoff,
		}
		for ctx.Err() == nil {
			more, failure := f.subscribe(ctx, yield)
			if !more {
				return
			}
			if failure != nil {
				if ctx.Err() == nil && !errors.Is(failure, context.Canceled) {
					log.Warn("subscription broke, resubscribing", "after", f.after.String(), "pause", f.backoff, "error", failure)
				}
				broken()
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(f.backoff):
			}
			if errors.Is(failure, ErrInvalidPosition) || endsBefore(ctx, store, f.last) {
				if ctx.Err() == nil {
					log.Error("subscription ended, the event store does not have its position", "after", f.after.String())
				}
				return
			}
			f.backoff = min(2*f.backoff, maxBackoff)
		}
	}
}

// following is a subscription over its connections.
type following struct {
	store   Store
	filter  Filter
	after   Position // of the last yielded event
	last    Position // of the event that was yielded last
	backoff time.Duration
}

// subscribe yields what comes over one connection. It returns why that ended, and reports whether more is wanted.
func (f *following) subscribe(ctx context.Context, yield func(Message) bool) (more bool, failure error) {
	for message, err := range f.store.Subscribe(ctx, f.after, f.filter) {
		if err != nil {
			return true, err
		}
		f.backoff = minBackoff
		if !message.CaughtUp {
			if !f.after.Before(message.Position) { // a repeat, or a checkpoint behind what has come
				continue
			}
			f.after = message.Position
			if message.Event != nil {
				f.last = f.after
			}
		}
		if !yield(message) {
			return false, nil
		}
	}
	return true, nil
}

// endsBefore reports whether the store is known to end before the position of an event.
func endsBefore(ctx context.Context, store Store, event Position) bool {
	if event == Start {
		return false
	}
	head, err := store.Head(ctx)
	return err == nil && head.Before(event)
}
