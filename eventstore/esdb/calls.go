package esdb

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore"
	"carillon/eventstore/panics"
)

// maxMoves bounds how often one call goes to another member, or through a new connection, without an answer.
const maxMoves = 30

// leading makes a call one that only the leader answers. Others name the leader.
func leading(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "requires-leader", "true")
}

// wait bounds how long a call waits for the server at a time. The time that its caller takes does not count.
type wait struct {
	since atomic.Int64 // when it began to wait, in nanoseconds; 0 while the caller has the turn
	moves int          // since the last answer
}

// restart begins a wait: the last one has brought an answer.
func (w *wait) restart() {
	w.moves = 0
	w.resume(0)
}

// pause hands the turn to the caller, and returns how long it has waited. resume takes it back.
func (w *wait) pause() time.Duration {
	waited := w.waited()
	w.since.Store(0)
	return waited
}

func (w *wait) resume(waited time.Duration) { w.since.Store(time.Now().Add(-waited).UnixNano()) }

// waited returns how long the present wait takes.
func (w *wait) waited() time.Duration {
	if since := w.since.Load(); since != 0 {
		return time.Since(time.Unix(0, since))
	}
	return 0
}

// supervise looks at a call now and then until its context ends. If an answer is late the others are asked who leads,
// as a frozen leader can't name its successor. If there is none after some time, the call ends.
func (s *Store) supervise(ctx context.Context, end context.CancelCauseFunc, l *link, w *wait) *time.Timer {
	began := time.Now()
	var look func()
	look = func() {
		waited := w.waited()
		switch {
		case ctx.Err() != nil:
			return
		case waited >= callTimeout && (s.patience == 0 || time.Since(began) >= callTimeout):
			end(context.DeadlineExceeded)
			return
		case waited >= lateAfter && s.several():
			s.findLeader(l)
		}
		time.AfterFunc(lateAgain, panics.Func(part, look))
	}
	return time.AfterFunc(lateAfter, panics.Func(part, look))
}

// led makes a call on the connection to the leader, and again on another one if that was not the leader, or if the
// connection broke. So it must be a call that can be made twice: a read can, and an append has its ids and its expected
// revision.
func led[T any](
	ctx context.Context, s *Store, call func(context.Context, *link, *wait) (T, error),
) (result T, err error) {
	ctx, done, err := s.begin(ctx)
	if err != nil {
		return result, err
	}
	defer done()
	w := &wait{}
	for w.restart(); ; {
		var elsewhere bool
		result, elsewhere, err = try(ctx, s, w, call)
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return result, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, context.Cause(ctx))
		case elsewhere && w.moves < maxMoves:
			if w.moves++; w.moves > 1 { // two that refer to each other are not asked as fast as they answer
				pause(ctx, searchPause)
			}
			continue
		}
		err = translate(err)
		passes := errors.Is(err, eventstore.ErrUnavailable) && !errors.Is(err, eventstore.ErrInvalidPosition)
		if !passes || w.waited() >= s.patience {
			return result, err
		}
		pause(ctx, retryPause)
	}
}

// try makes a call once, and reports whether it should be made elsewhere.
func try[T any](
	ctx context.Context, s *Store, w *wait, call func(context.Context, *link, *wait) (T, error),
) (result T, elsewhere bool, err error) {
	l, err := s.connected(ctx)
	if err != nil {
		return result, false, err
	}
	attempt, end := context.WithCancelCause(ctx)
	defer end(nil)
	defer s.supervise(attempt, end, l, w).Stop()
	result, err = call(attempt, l, w)
	switch {
	case err == nil || ctx.Err() != nil:
		return result, false, err
	case attempt.Err() != nil:
		return result, false, context.Cause(attempt)
	}
	return result, s.elsewhere(ctx, l, err), err
}

// elsewhere makes a call that failed go to another member, or through a new connection. It reports false if there is
// nothing better now.
func (s *Store) elsewhere(ctx context.Context, l *link, err error) bool {
	if to := leader(err); to != "" && to != l.address {
		s.move(l, to)
		return true
	}
	if l.lostBy(ctx, err) {
		s.drop(l)
		return true
	}
	if code := codeOf(err); s.several() && (code == codes.Unavailable || code == codes.Unknown) {
		s.findLeader(l)
	}
	select {
	case <-l.gone: // it was looked for, or another call has found another one
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, length time.Duration) {
	select {
	case <-time.After(length):
	case <-ctx.Done():
	}
}
