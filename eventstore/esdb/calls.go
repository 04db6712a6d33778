package esdb

import (
	"context"
	"fmt"
	"time"

	"carillon/eventstore"
)

// maxIdle bounds the goroutines that wait for the next call.
const maxIdle = 64

// begin registers a call, whose context ends with the store too.
func (s *Store) begin(ctx context.Context) (context.Context, func(), error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, nil, fmt.Errorf("%w: closed", eventstore.ErrUnavailable)
	}
	s.calls.Add(1)
	ctx, cancel := context.WithCancel(ctx)
	stop := context.AfterFunc(s.ctx, cancel)
	return ctx, func() { stop(); cancel(); s.calls.Done() }, nil
}

// call runs f so that the caller gets away when its context ends, even while the client hangs in discovery.
func call[T any](ctx context.Context, s *Store, f func(context.Context) (T, error)) (T, error) {
	callCtx, end, err := s.begin(ctx)
	if err != nil {
		var none T
		return none, err
	}
	return await(ctx, s, func() (T, error) {
		defer end()
		return f(callCtx)
	})
}

// start is call for what is read from afterwards, within a call that has begun.
func start[T any](ctx context.Context, s *Store, f func() (T, error)) (T, error) {
	s.calls.Add(1)
	return await(ctx, s, func() (T, error) {
		defer s.calls.Done()
		return f()
	})
}

func await[T any](ctx context.Context, s *Store, f func() (T, error)) (T, error) {
	var none T
	type answer struct {
		value T
		err   error
	}
	answers := make(chan answer, 1)
	s.run(func() {
		value, err := f()
		answers <- answer{value, err}
	})
	began := time.Now()
	look := time.NewTimer(searchPatience)
	defer look.Stop()
	for {
		select {
		case a := <-answers:
			return a.value, a.err
		case <-ctx.Done():
			return none, fmt.Errorf("%w: %w", eventstore.ErrUnavailable, ctx.Err())
		case <-s.ctx.Done():
			return none, fmt.Errorf("%w: closed", eventstore.ErrUnavailable)
		case now := <-look.C:
			if err := s.hopeless(began, now); err != nil {
				return none, err
			}
			look.Reset(searchInterval)
		}
	}
}

// hopeless says why a call that has waited for long should wait no longer: the client found no server since, or the
// server is too slow.
func (s *Store) hopeless(began, now time.Time) error {
	waited := now.Sub(began).Round(100 * time.Millisecond)
	switch last := s.trouble.Load(); {
	case last != nil && last.at.After(began):
		return fmt.Errorf("%w: no server in %s; last %s", eventstore.ErrUnavailable, waited, last.message)
	case waited >= callTimeout:
		return fmt.Errorf("%w: no answer in %s", eventstore.ErrUnavailable, waited)
	}
	return nil
}

// run calls f in a goroutine that has done so before, where one is idle: its stack has grown to what the client
// needs, and to grow one is the greater part of what a new goroutine costs.
func (s *Store) run(f func()) {
	select {
	case s.work <- f:
	default:
		go s.works(f)
	}
}

func (s *Store) works(f func()) {
	for {
		f()
		if s.idle.Add(1) > maxIdle {
			s.idle.Add(-1)
			return
		}
		select {
		case f = <-s.work:
			s.idle.Add(-1)
		case <-s.ctx.Done():
			return
		}
	}
}
