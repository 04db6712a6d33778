package delivery

import (
	"context"
	"runtime/metrics"
	"time"

	"carillon/eventstore/stack"
)

const (
	// crowdPerProcessor is how much may wait for a processor before few connections are opened. Nobody takes turns there: a
	// thousand requests that begin at once, each with a handshake, are a second in which nobody else gets a word in.
	// Whoever has not begun waits in a lane, where organizations take turns.
	crowdPerProcessor = 16
	// crowdPause is how long the crowd is given before it is looked at again; at least one request is begun then.
	crowdPause = 5 * time.Millisecond
)

// pump starts what may start.
func (d *Deliverer) pump() { d.begin(0) }

// begin starts what may start, the first few as if it were not crowded.
func (d *Deliverer) begin(anyway int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ctx == nil {
		return
	}
	for begun := 0; ; begun++ {
		crowded := begun >= anyway && d.Waiting() >= d.crowd
		ctx, cancel := context.WithCancel(d.ctx)
		job, ok := d.lanes.next(cancel, crowded)
		if !ok {
			cancel()
			if crowded {
				d.beginLater()
			}
			return
		}
		d.running.Go(func() {
			defer cancel()
			stack.Grow()
			took := d.attempt(ctx, job)
			wants := d.lanes.done(job, took)
			d.pump()
			if wants {
				d.Wake()
			}
		})
	}
}

// beginLater looks again after a pause.
func (d *Deliverer) beginLater() {
	if d.later {
		return
	}
	d.later = true
	time.AfterFunc(crowdPause, func() {
		d.mu.Lock()
		d.later = false
		d.mu.Unlock()
		d.begin(1)
	})
}

// runnable counts the goroutines that could go on and wait for a processor.
func runnable() func() int {
	sample := []metrics.Sample{{Name: "/sched/goroutines/runnable:goroutines"}}
	return func() int {
		metrics.Read(sample)
		return int(sample[0].Value.Uint64()) //nolint:gosec // no process has as many
	}
}
