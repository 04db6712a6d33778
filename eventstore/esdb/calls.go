package esdb

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/metadata"

	"carillon/eventstore"
)

// maxMoves bounds how often one call goes to another member, or through a new connection.
const maxMoves = 30

// leading makes a call one that only the leader answers. Others say where it is.
func leading(ctx context.Context) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "requires-leader", "true")
}

// waits bounds how long a call waits for the server at a time. The time that its caller takes does not count.
type waits struct {
	turn atomic.Uint64 // odd while it waits
	late *time.Timer   // asks the others who leads: a leader that is frozen can't say that it leads no more
	over *time.Timer   // ends the call
}

// waits begins the first wait of a call.
func (s *Store) waits(l *link, end context.CancelCauseFunc) *waits {
	w := &waits{}
	w.turn.Store(1)
	w.over = time.AfterFunc(callTimeout, func() { end(context.DeadlineExceeded) })
	w.late = time.AfterFunc(lateAfter, func() {
		for turn := w.turn.Load(); turn%2 == 1 && w.turn.Load() == turn && s.several.Load(); pause(s.ctx, lateAgain) {
			s.look(l)
		}
	})
	return w
}

// stop ends a wait: something has come.
func (w *waits) stop() {
	w.turn.Store((w.turn.Load() + 1) &^ 1)
	w.late.Stop()
	w.over.Stop()
}

// again begins the next wait.
func (w *waits) again() {
	w.turn.Store(w.turn.Load() | 1)
	w.late.Reset(lateAfter)
	w.over.Reset(callTimeout)
}

// led makes a call on the connection to the leader, and again on another one if that was not the leader, or if the
// connection broke. So it must be a call that can be made twice: what is read is, and what is appended has its ids and its
// expected revision. It ends after within, if that is above 0.
func led[T any](
	ctx context.Context, s *Store, within time.Duration, call func(context.Context, *link, *waits) (T, error),
) (T, error) {
	var none T
	ctx, done, err := s.begin(ctx, within)
	if err != nil {
		return none, err
	}
	defer done()
	ctx, end := context.WithCancelCause(ctx)
	defer end(nil)
	for moves := 0; ; moves++ {
		l, err := s.connected(ctx)
		if err != nil {
			return none, err
		}
		w := s.waits(l, end)
		result, err := call(ctx, l, w)
		w.stop()
		switch {
		case err == nil:
			return result, nil
		case ctx.Err() != nil:
			return none, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, context.Cause(ctx))
		case moves == maxMoves || !s.elsewhere(ctx, l, err):
			return none, translate(err)
		}
		if moves > 0 { // two that refer to each other are not asked as fast as they answer
			pause(ctx, searchPause)
		}
	}
}

// elsewhere sees to it that a call which failed goes to another member, or through a new connection; false means that
// there is nothing better to be had now.
func (s *Store) elsewhere(ctx context.Context, l *link, err error) bool {
	if to := leader(err); to != "" && to != l.address {
		s.move(l, to)
		return true
	}
	if l.lostBy(ctx, err) {
		s.drop(l)
		return true
	}
	if code := codeOf(err); s.several.Load() && (code == codes.Unavailable || code == codes.Unknown) {
		s.look(l)
	}
	select {
	case <-l.gone: // it was looked for, or somebody else has heard of another one
		return true
	default:
		return false
	}
}

func pause(ctx context.Context, length time.Duration) {
	timer := time.NewTimer(length)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}
