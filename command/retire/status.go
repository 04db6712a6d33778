package retire

import (
	"context"
	"fmt"
	"time"
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
	before := r.before()
	page, _, err := r.Oldest(ctx, before, Published{}, 1)
	if err != nil || len(page) == 0 {
		return 0, err
	}
	return before.Sub(page[0].At), nil
}

// Warnings are those of readiness and status.
func (r *Retirer) Warnings() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.failure == nil {
		return nil
	}
	return []string{fmt.Sprintf("retirement failed, tried again every %s: %v", turnEvery, r.failure)}
}
