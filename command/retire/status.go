package retire

import (
	"context"
	"errors"
	"fmt"
	"time"

	"carillon/aggregates/retirement"
	"carillon/command/irreversible"
)

// Totals count what this process has retired since it started.
type Totals struct{ Events, Deliveries, Happenings int }

// count adds what was retired to the totals.
func (r *Retirer) count(more Totals) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.retired.Events += more.Events
	r.retired.Deliveries += more.Deliveries
	r.retired.Happenings += more.Happenings
}

// end takes the outcome of a turn.
func (r *Retirer) end(failure error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure = failure; failure == nil {
		r.ended = r.Now()
	}
}

// Retired returns what this process has retired, and the time since its last turn that ended without an error; without
// one, the time since the start.
func (r *Retirer) Retired() (retired Totals, age time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	at := r.Started
	if r.ended.After(at) {
		at = r.ended
	}
	return r.retired, r.Now().Sub(at)
}

// Overdue returns the time by which the oldest event exceeds that for which events are kept; 0 if none does. Its
// deliveries may be pending.
func (r *Retirer) Overdue(ctx context.Context) (time.Duration, error) {
	if r.Keep == 0 {
		return 0, nil
	}
	before := cutoff(r.Now(), r.Keep)
	page, _, err := r.Oldest(ctx, before, retirement.Old{}, 1)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	return before.Sub(page[0].At), nil
}

// forgetPostponed forgets what the turn before postponed.
func (r *Retirer) forgetPostponed() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = nil
}

// Postponed returns how many acts the last turn has postponed.
func (r *Retirer) Postponed() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

// unlessPostponed notes that an act waits for its second turn, which is no failure of this one.
func (r *Retirer) unlessPostponed(err error) error {
	postponed, is := errors.AsType[*irreversible.PostponedError](err)
	if !is {
		return err
	}
	r.Log.Warn("retirement postponed, a large share is due", "act", postponed.Act, "due", postponed.Due,
		"of", postponed.Of, "until", postponed.Until)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.waiting = append(r.waiting, postponed.Error())
	return nil
}

// Warnings are those of readiness and status.
func (r *Retirer) Warnings() (warnings []string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure != nil {
		warnings = append(warnings, fmt.Sprintf("retirement failed, tried again every %s: %v", turnEvery, r.failure))
	}
	for _, why := range r.waiting {
		warnings = append(warnings, "retirement: "+why)
	}
	return warnings
}
