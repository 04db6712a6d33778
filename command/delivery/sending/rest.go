package sending

import (
	"cmp"
	"context"
	"net/http"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
	"carillon/command/webhook"
)

// unstatedRest is the rest of a receiver that refuses requests and does not say for how long.
const unstatedRest = time.Second

// refused reports how long a receiver asks to be left alone.
func refused(result webhook.Result) (wait time.Duration, is bool) {
	switch result.StatusCode {
	case http.StatusTooManyRequests:
		return cmp.Or(result.RetryAfter, unstatedRest), true
	case http.StatusServiceUnavailable: // without Retry-After it says only that it fails
		return result.RetryAfter, result.RetryAfter > 0
	}
	return 0, false
}

// restAfter lets a destination rest whose receiver asked for that, in this process at once, and in all others.
func (d *Deliverer) restAfter(ctx context.Context, held *schedule.Delivery, result webhook.Result) {
	wait, is := refused(result)
	if !is || !d.rest(held, wait) {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	if err := d.Queue.Rest(ctx, held.Destination, wait); err != nil {
		d.Log.Warn("rest of a destination not shared with other processes", "destination", held.Destination, "error",
			err)
	}
}

// rest lets a destination rest in this process, and reports whether others do not know that.
func (d *Deliverer) rest(held *schedule.Delivery, wait time.Duration) (news bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	return d.schedule.Rest(held.Destination, now.Add(wait), now)
}

// Slots are the slots at destinations with a limit, which all processes share.
type Slots interface {
	// Take gets the slot of a name for an interval, in which no other process gets it, or returns how long to wait before
	// the next try.
	Take(ctx context.Context, name string, interval time.Duration) (wait time.Duration, resting bool, err error)
}

// SlotName returns the name of the slots at a destination. A slash is in no name of a host, which share the table.
func SlotName(destination uuid.UUID) string { return "destination/" + destination.String() }

// takeSlot gets a slot for a destination. If slots can't be reached, nothing is sent to it.
func (d *Deliverer) takeSlot(ctx context.Context, slot schedule.Slot) {
	taking, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	wait, _, err := d.Slots.Take(taking, SlotName(slot.Destination), slot.Interval)
	if err != nil {
		wait = idleWait
		if ctx.Err() == nil {
			d.Log.Warn("slots at a destination with a limit unavailable, its deliveries wait",
				"destination", slot.Destination, "error", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	d.schedule.Answer(slot, wait, now)
	d.begin(now)
}
