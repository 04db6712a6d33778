package fetch

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// slowAnswer is from when on a host counts as slow.
	slowAnswer = 2 * time.Second
	// ownBytes of a body come with its slot. Most pages have no more.
	ownBytes = 256 << 10
	// sharedBytes, times the number of slots, are shared by the larger bodies that are under way.
	sharedBytes = 1 << 20
)

// slots bounds what is under way: the requests, and the bytes of their bodies until these have been used.
//
// However many hosts let us wait, slots are left for those that don't: hosts that were slow the last time have half of
// them at most, and together with those that were not asked yet three quarters.
type slots struct {
	slow, strange, all chan struct{}

	bytes *semaphore.Weighted
	// last is held by the one body that may go on growing while the shared bytes are used up. Without it, bodies that
	// have come in half could wait for each other for good.
	last chan struct{}
}

func newSlots(n int) *slots {
	return &slots{
		slow:    make(chan struct{}, max(n/2, 1)),
		strange: make(chan struct{}, max(n*3/4, 1)),
		all:     make(chan struct{}, n),
		bytes:   semaphore.NewWeighted(int64(n) * sharedBytes),
		last:    make(chan struct{}, 1),
	}
}

// pace of a host's answers.
const (
	notAsked int32 = iota
	wasQuick
	wasSlow
)

// manner is how a host has answered last.
type manner struct{ last atomic.Int32 }

func (m *manner) answered(within time.Duration) {
	if within < slowAnswer {
		m.last.Store(wasQuick)
	} else {
		m.last.Store(wasSlow)
	}
}

// slot is one request, with the body that it brings. Whoever has one waits for nobody who waits for a slot.
type slot struct {
	of    *slots
	holds []chan struct{}
	bytes int64
}

// take waits for a slot. The fewer slots a host may have, the earlier it waits, so that it keeps none from others.
func (s *slots) take(ctx context.Context, m *manner) (*slot, error) {
	wanted := []chan struct{}{s.slow, s.strange, s.all}
	switch m.last.Load() {
	case wasQuick:
		wanted = wanted[2:]
	case notAsked:
		wanted = wanted[1:]
	}
	taken := &slot{of: s}
	for _, place := range wanted {
		if err := hold(ctx, place); err != nil {
			taken.release()
			return nil, err
		}
		taken.holds = append(taken.holds, place)
	}
	return taken, nil
}

// grow waits until the body may take so many bytes more.
func (s *slot) grow(ctx context.Context, by int64, t *timeout) error {
	if s.of.bytes.TryAcquire(by) {
		s.bytes += by
		return nil
	}
	for _, held := range s.holds {
		if held == s.of.last {
			return nil
		}
	}
	t.pause() // it is for ourselves that it waits
	defer t.resume()
	if err := hold(ctx, s.of.last); err != nil {
		return err
	}
	s.holds = append(s.holds, s.of.last)
	return nil
}

// release gives the slot to others, and the bytes of its body.
func (s *slot) release() {
	s.of.bytes.Release(s.bytes)
	for _, held := range s.holds {
		<-held
	}
	s.bytes, s.holds = 0, nil
}

// timeout ends a request that takes too long. It is for one goroutine.
type timeout struct {
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// limitTime ends a context with a cause after a while.
func limitTime(ctx context.Context, after time.Duration, cause error) (context.Context, *timeout, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	t := &timeout{timer: time.AfterFunc(after, func() { cancel(cause) }), left: after, since: time.Now()}
	return ctx, t, func() {
		t.timer.Stop()
		cancel(nil)
	}
}

func (t *timeout) pause() {
	t.timer.Stop()
	t.left -= time.Since(t.since)
}

func (t *timeout) resume() {
	t.since = time.Now()
	t.timer.Reset(max(t.left, 0))
}
