package sending

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/eventstore/panics"
)

// begin starts what may start. The mutex is held.
func (d *Deliverer) begin(now time.Time) {
	switch {
	case d.ctx == nil:
		return
	case now.Before(d.paused):
		d.beginAt(d.paused)
		return
	}
	for held := d.schedule.Next(now); held != nil; held = d.schedule.Next(now) {
		ctx := d.ctx
		d.inFlight[held.ID] = held
		d.running.Go(d.guarded(func() {
			if d.done(held.ID, d.attempted(ctx, held)) {
				d.Wake()
			}
		}))
	}
	returned, next := d.schedule.Tick(now)
	d.putBack(returned)
	d.beginAt(next)
	for _, slot := range d.schedule.Slots() {
		ctx := d.ctx
		d.running.Go(d.guarded(func() { d.takeSlot(ctx, slot) }))
	}
}

// done ends a request, starts what may start then, and reports whether a claim is worthwhile.
func (d *Deliverer) done(id uuid.UUID, outcome schedule.Outcome) (claim bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	delete(d.inFlight, id)
	claim = d.schedule.Done(id, outcome, now)
	d.begin(now)
	return claim
}

// beginAt starts again what may start at a time. The mutex is held.
func (d *Deliverer) beginAt(at time.Time) {
	if at.IsZero() || !d.timed.IsZero() && !at.Before(d.timed) {
		return
	}
	d.timed = at
	time.AfterFunc(time.Until(at), d.guarded(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.timed.Equal(at) {
			d.timed = time.Time{}
		}
		d.begin(time.Now())
	}))
}

// attempted sends one delivery. One that makes this panic keeps its lease, so that it is tried again after a while.
func (d *Deliverer) attempted(ctx context.Context, held *schedule.Delivery) (outcome schedule.Outcome) {
	err := panics.Catch("attempt", func() error {
		outcome = d.attempt(ctx, held)
		return nil
	})
	if err != nil {
		d.abandon(ctx, held, err)
	}
	return outcome
}

// guarded returns f with its panics caught.
func (d *Deliverer) guarded(f func()) func() {
	return panics.Func("deliverer", func() { d.orReset(f) })
}

// guardedLoop returns a function that calls part, and again after a panic.
func (d *Deliverer) guardedLoop(ctx context.Context, part func(context.Context)) func() {
	return panics.Loop(ctx, "deliverer", func(ctx context.Context) { d.orReset(func() { part(ctx) }) })
}

// orReset calls f. If it panics, what waits and what is in flight may be counted wrong: another schedule takes the
// place of the one there is, a pause later. It goes on with what is in flight; others are found again by their leases.
func (d *Deliverer) orReset(f func()) {
	intact := false
	defer func() {
		if intact {
			return
		}
		d.mu.Lock()
		defer d.mu.Unlock()
		d.reset(time.Now())
	}()
	f()
	intact = true
}

// reset replaces the schedule. The mutex is held.
func (d *Deliverer) reset(now time.Time) {
	d.schedule, d.timed, d.restsKnown = schedule.New(d.Settings), time.Time{}, false
	d.paused = now.Add(resetPause)
	d.schedule.Resume(slices.Collect(maps.Values(d.inFlight)), now)
	d.beginAt(d.paused)
	d.Wake()
}

// putBack lets deliveries go back to the queue, and waits for nothing. The mutex is held.
func (d *Deliverer) putBack(returned []*schedule.Delivery) {
	if len(returned) == 0 {
		return
	}
	for i := range returned {
		d.back = append(d.back, returned[i].ID)
	}
	select {
	case d.returns <- struct{}{}:
	default:
	}
}

// giveBackReturned releases the leases of returned deliveries, until the context ends.
func (d *Deliverer) giveBackReturned(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case <-d.returns:
		}
		d.mu.Lock()
		back := d.back
		d.back = nil
		d.mu.Unlock()
		d.release(ctx, back...)
	}
}
