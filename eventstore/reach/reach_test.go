package reach_test

import (
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"carillon/eventstore/reach"
	"carillon/eventstore/storetest/assert"
	"carillon/eventstore/storetest/must"
)

// store is something that may be cut off.
type store struct {
	cut   atomic.Bool
	asked atomic.Uint64
	heard atomic.Uint64
	drops atomic.Uint64
	hangs bool // without an answer, else it refuses
}

func (s *store) ask(ctx context.Context) error {
	s.asked.Add(1)
	if !s.cut.Load() {
		return nil
	}
	if s.hangs {
		<-ctx.Done()
		return ctx.Err()
	}
	return errors.New("refused")
}

func watch(t *testing.T, s *store) *reach.Watch {
	t.Helper()
	w := &reach.Watch{
		Name:  "store",
		Ask:   s.ask,
		Heard: s.heard.Load,
		Lost:  func() { s.drops.Add(1) },
		Log:   slog.New(slog.DiscardHandler),
	}
	go w.Run(t.Context())
	return w
}

// A lock is given up between 5 and 6 seconds after the last answer, whether packets vanish or are refused, and taken
// again within a second of the next answer.
func TestWatchEndsWorkWhenStoreIsLost(t *testing.T) {
	t.Parallel()
	for name, hangs := range map[string]bool{"refused": false, "vanishing": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				s := &store{hangs: hangs}
				w := watch(t, s)
				working, done := w.While(t.Context())
				defer done()
				time.Sleep(time.Minute + 300*time.Millisecond)
				must.True(t, working.Err() == nil && w.Err() == nil, "lost although it answers")
				began := time.Now()
				s.cut.Store(true)
				<-working.Done()
				if took := time.Since(began); took < 4*time.Second || took > 6*time.Second {
					t.Errorf("given up after %s", took)
				}
				if !reach.Gone(working) || w.Err() == nil || s.drops.Load() != 1 {
					t.Errorf("cause %v, error %v, %d drops", context.Cause(working), w.Err(), s.drops.Load())
				}
				time.Sleep(90 * time.Second)
				s.cut.Store(false)
				began = time.Now()
				again, done := w.While(t.Context())
				defer done()
				if took := time.Since(began); took > 6*time.Second {
					t.Errorf("taken again after %s", took)
				}
				if again.Err() != nil || w.Err() != nil {
					t.Errorf("still lost: %v", w.Err())
				}
			})
		})
	}
}

// A store that sends something by itself is not asked, and a quiet one is asked every two seconds.
func TestWatchAsksOnlyWhenQuiet(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		w := watch(t, s)
		for range 600 {
			s.heard.Add(1)
			time.Sleep(100 * time.Millisecond)
		}
		if n := s.asked.Load(); n > 1 {
			t.Errorf("asked %d times while much was heard", n)
		}
		s.asked.Store(0)
		time.Sleep(time.Minute)
		if n := s.asked.Load(); n < 25 || n > 31 || w.Err() != nil {
			t.Errorf("asked %d times in a quiet minute, %v", n, w.Err())
		}
	})
}

// A context that ends while the store is away ends the wait, not by the loss.
func TestWatchWaitEndsWithContext(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s := &store{}
		s.cut.Store(true)
		w := watch(t, s)
		time.Sleep(10 * time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		working, done := w.While(ctx)
		defer done()
		if working.Err() == nil || reach.Gone(working) {
			t.Errorf("%v, %v", working.Err(), context.Cause(working))
		}
	})
	var none *reach.Watch
	working, done := none.While(t.Context())
	defer done()
	assert.True(t, working.Err() == nil && none.Err() == nil, "without a watch nothing is lost")
}
