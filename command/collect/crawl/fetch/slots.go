package fetch

import (
	"context"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"
)

const (
	// slowAnswer is the duration from which a host counts as slow.
	slowAnswer = 2 * time.Second
	// ownBytes of a body belong to its slot. Most pages are shorter.
	ownBytes = 256 << 10
	// sharedBytes, times the number of slots, are shared by the larger bodies in flight.
	sharedBytes = 1 << 20
)

// slots limits the requests in flight, and the bytes of their bodies until these have been used.
//
// Some slots are reserved for fast hosts: hosts with a slow last answer get half of the slots at most, and together
// with unknown hosts three quarters.
type slots struct {
	slow, strange, all chan struct{}

	bytes *semaphore.Weighted
	// last is held by the one body that may grow when the shared bytes are used up. Without it, incomplete bodies could
	// wait for each other forever.
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

// Pace of a host's answers.
const (
	notAsked int32 = iota
	wasQuick
	wasSlow
)

// manner is the pace of a host's last answer.
type manner struct{ last atomic.Int32 }

func (m *manner) answered(within time.Duration) {
	if within < slowAnswer {
		m.last.Store(wasQuick)
	} else {
		m.last.Store(wasSlow)
	}
}

// slot is one request with its body. The owner of a slot never waits for an owner-to-be of one.
type slot struct {
	of    *slots
	holds []chan struct{}
	bytes int64
}

// take waits for a slot. Hosts with a smaller share wait earlier, so that they take none from others.
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

// grow waits until the body may take by more bytes.
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
	t.pause() // the server is not to blame for this wait
	defer t.resume()
	if err := hold(ctx, s.of.last); err != nil {
		return err
	}
	s.holds = append(s.holds, s.of.last)
	return nil
}

// release returns the slot and the bytes of its body.
func (s *slot) release() {
	s.of.bytes.Release(s.bytes)
	for _, held := range s.holds {
		<-held
	}
	s.bytes, s.holds = 0, nil
}

// timeout ends a request that takes too long. It is not safe for concurrent use.
type timeout struct {
	timer *time.Timer
	left  time.Duration
	since time.Time
}

// limitTime returns a context that ends with a cause after a while.
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
