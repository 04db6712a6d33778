package delivery

import (
	"context"
	"fmt"
	"time"

	"github.com/google/uuid"

	"carillon/command/delivery/schedule"
)

// Turns are the turns at destinations with a limit, which all processes share.
type Turns interface {
	// Take gets the turn at a destination for an interval, in which no other process gets it, or returns how long to wait
	// before the next try.
	Take(ctx context.Context, destination uuid.UUID, interval time.Duration) (wait time.Duration, err error)
}

// limitError reports that a destination's limit is not the one under which a request was let begin.
type limitError struct{ perSecond float64 }

func (e limitError) Error() string {
	return fmt.Sprintf("the destination's limit is %g requests/s", e.perSecond)
}

// takeTurn gets a turn for a destination. If turns can't be reached, nothing is sent to it.
func (d *Deliverer) takeTurn(ctx context.Context, turn schedule.Turn) {
	taking, cancel := context.WithTimeout(ctx, recordPause)
	defer cancel()
	wait, err := d.Turns.Take(taking, turn.Destination, turn.Interval)
	if err != nil {
		wait = idlePoll
		if ctx.Err() == nil {
			d.Log.Warn("turns at a destination with a limit unavailable, its deliveries wait",
				"destination", turn.Destination, "error", err)
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := time.Now()
	if wait > 0 {
		d.schedule.Denied(turn, wait, now)
	} else {
		d.schedule.Granted(turn, now)
	}
	d.begin(now)
}
