package esdb

import (
	"context"
	"fmt"
	"sync"
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

// waiting is how long a call has waited for the store. The time that its caller takes for what has come does not count.
type waiting struct {
	mu    sync.Mutex
	spent time.Duration // by waits that are over
	since time.Time     // of the present one; zero while the caller has what came
	timer *time.Timer
}

// hold ends a wait: something has come.
func (p *waiting) hold() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		p.spent, p.since = p.spent+time.Since(p.since), time.Time{}
	}
}

// wait begins the next one.
func (p *waiting) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.since = time.Now()
}

// waited returns for how long a call has waited, in all and since something came last.
func (p *waiting) waited() (all, last time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.since.IsZero() {
		last = time.Since(p.since)
	}
	return p.spent + last, last
}

// bound ends a call when it has waited for callTimeout.
func (p *waiting) bound(cancel context.CancelCauseFunc) (stop func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.timer = time.AfterFunc(callTimeout, func() {
		all, _ := p.waited()
		if all >= callTimeout {
			cancel(context.DeadlineExceeded)
			return
		}
		p.mu.Lock()
		defer p.mu.Unlock()
		p.timer.Reset(max(callTimeout-all, searchPause)) // while the caller is busy, all stands still
	})
	return func() { p.timer.Stop() }
}

// led makes a call on the connection to the leader, and again on another one where that was not the leader, or where
// the connection broke. So it must be a call that can be made twice: what is read is, and what is appended has its ids
// and its expected revision.
func led[T any](ctx context.Context, s *Store, call func(context.Context, *link) (T, error)) (T, error) {
	ctx, end, err := s.begin(ctx, callTimeout)
	if err != nil {
		var none T
		return none, err
	}
	defer end()
	return lead(ctx, s, &waiting{}, call)
}

// ledPatiently is led for a call that says when its caller is busy.
func ledPatiently[T any](ctx context.Context, s *Store, call func(context.Context, *link, *waiting) (T, error)) (T, error) {
	ctx, end, err := s.begin(ctx, 0)
	if err != nil {
		var none T
		return none, err
	}
	defer end()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p := &waiting{}
	p.wait()
	stop := p.bound(cancel)
	defer stop()
	return lead(ctx, s, p, func(ctx context.Context, l *link) (T, error) { return call(ctx, l, p) })
}

func lead[T any](ctx context.Context, s *Store, p *waiting, call func(context.Context, *link) (T, error)) (T, error) {
	var none T
	for moves := 0; ; moves++ {
		l, err := s.connected(ctx)
		if err != nil {
			return none, err
		}
		p.hold()
		p.wait()
		answered := s.late(l, p)
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
