package esdb

import (
	"context"
	"fmt"
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

// led makes a call on the connection to the leader, and again on another one where that was not the leader, or where
// the connection broke. So it must be a call that can be made twice: what is read is, and what is appended has its ids
// and its expected revision.
func led[T any](ctx context.Context, s *Store, call func(context.Context, *link) (T, error)) (T, error) {
	var none T
	ctx, end, err := s.begin(ctx, callTimeout)
	if err != nil {
		return none, err
	}
	defer end()
	for moves := 0; ; moves++ {
		l, err := s.connected(ctx)
		if err != nil {
			return none, err
		}
		answered := s.late(l)
		result, err := call(ctx, l)
		answered()
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
