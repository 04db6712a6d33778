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

// FollowUnbroken is Subscribe under supervision: when the connection breaks or the store restarts, it subscribes again after
// the last position it yielded, with a growing pause, until the context ends. It never yields an event twice.
// It ends before the context does, with a line in the log, if the store does not have that position (ErrInvalidPosition), or
// ends before it after the connection broke: it is another store by then, or was restored from an older backup. Some servers
// refuse such a position each time, others deliver nothing.
// It calls broken when the connection breaks: until it has caught up again, events may be stored that it has yet to yield.
func FollowUnbroken(ctx context.Context, store Store, after Position, filter Filter, log *slog.Logger, broken func()) iter.Seq[Message] {
	return func(yield func(Message) bool) {
		backoff, last := minBackoff, after // last is the position of the last event
		for ctx.Err() == nil {
			var failure error
			for message, err := range store.Subscribe(ctx, after, filter) {
				if failure = err; err != nil {
					if ctx.Err() == nil && !errors.Is(err, context.Canceled) {
						log.Warn("subscription broke, resubscribing", "after", after.String(), "pause", backoff, "error", err)
					}
					broken()
					break
				}
				backoff = minBackoff
				if !message.CaughtUp {
					if !after.Before(message.Position) { // a repeat, or a checkpoint behind what has come
						continue
					}
					after = message.Position
					if message.Event != nil {
						last = after
					}
				}
				if !yield(message) {
					return
				}
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(backoff):
			}
			if errors.Is(failure, ErrInvalidPosition) || endsBefore(ctx, store, last) {
				if ctx.Err() == nil {
					log.Error("subscription ended, the event store does not have its position", "after", after.String())
				}
				return
			}
			backoff = min(2*backoff, maxBackoff)
		}
	}
}

// endsBefore reports whether the store is known to end before the position of an event.
func endsBefore(ctx context.Context, store Store, event Position) bool {
	if event == Start {
		return false
	}
	head, err := store.Head(ctx)
	return err == nil && head.Before(event)
}
