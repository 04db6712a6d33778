package delivery

import (
	"context"
	"runtime/metrics"
	"time"
)

const (
	// crowdPerProcessor is how much may wait for a processor before few connections are opened. Nobody takes turns there: a
	// thousand requests that begin at once, each with a handshake, are a second in which nobody else gets a word in.
	// Whoever has not begun waits in a lane, where organizations take turns.
	crowdPerProcessor = 16
	// busyPerProcessor is how much may wait before one organization opens few connections beside others.
	busyPerProcessor = 1
	// crowdPause is how long the crowd is given before it is looked at again; at least one request is begun then.
	crowdPause = 5 * time.Millisecond
)

// press is how much waits for a processor.
type press int

const (
	calm press = iota
	busy
	crowded
)

// press looks at how much waits.
func (d *Deliverer) press() press {
	switch waiting := d.Waiting(); {
	case waiting >= crowdPerProcessor*d.processors:
		return crowded
	case waiting >= busyPerProcessor*d.processors:
		return busy
	}
	return calm
}

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
		now := calm
		if begun >= anyway {
			now = d.press()
		}
		ctx, cancel := context.WithCancel(d.ctx)
		job, ok := d.lanes.next(cancel, now)
		if !ok {
			cancel()
			d.goOnAt(d.lanes.soon())
			if queued, _ := d.lanes.size(); queued > 0 && now != calm {
				d.beginLater()
			}
			return
		}
		d.running.Go(func() {
			defer cancel()
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
