package node

import (
	"context"
	"sync"
	"time"
)

// deadline is a context that ends at a time, or with its parent. Its timer begins when somebody waits for that: most appends
// are answered together with others, and nobody waits for them alone.
type deadline struct {
	context.Context

	at     time.Time
	mu     sync.Mutex
	timed  context.Context // nil: nobody has waited
	cancel context.CancelFunc
}

// withDeadline makes a context that ends after a time.
func withDeadline(ctx context.Context, within time.Duration) (_ context.Context, release func()) {
	d := &deadline{Context: ctx, at: time.Now().Add(within)}
	return d, d.release
}

// Deadline implements context.Context.
func (d *deadline) Deadline() (time.Time, bool) { return d.at, true }

// Done implements context.Context.
func (d *deadline) Done() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.timed == nil {
		d.timed, d.cancel = context.WithDeadline(d.Context, d.at)
	}
	return d.timed.Done()
}

// Err implements context.Context.
func (d *deadline) Err() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	switch {
	case d.timed != nil:
		return d.timed.Err()
	case !time.Now().Before(d.at):
		return context.DeadlineExceeded
	}
	return d.Context.Err()
}

// release ends the timer, where there is one.
func (d *deadline) release() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.cancel != nil {
		d.cancel()
	}
}
