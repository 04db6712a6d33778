package delivery

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Why a replay is refused.
var (
	ErrInFlight   = errors.New("the delivery is still in flight: wait until it has succeeded or failed")
	ErrReplaying  = errors.New("another replay of this delivery is running")
	ErrSuperseded = errors.New("the delivery was superseded by a newer one, which can be replayed instead")
	ErrDiscarded  = errors.New("the delivery was discarded")
)

// DiscardedError is ErrDiscarded with its cause.
type DiscardedError struct{ Reason string }

// Error names the cause, and how the event can be had again.
func (e *DiscardedError) Error() string {
	return ErrDiscarded.Error() + ": " + e.Reason + "; a backfill sends it where a subscription wants it now"
}

// Unwrap makes errors.Is(err, ErrDiscarded) hold.
func (e *DiscardedError) Unwrap() error { return ErrDiscarded }

// Command is an intention; times, jitter and outcomes arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// RecordAttempt records a request that was made. It is always recorded: it happened.
	RecordAttempt struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Number       int // the number it was started under; taken already means that two drivers sent it at once
		Trigger      Trigger
		Outcome      Outcome
		At           time.Time
		Retry        Retry
	}
	// Supersede ends it in favour of a newer one, if it was not attempted yet.
	Supersede struct {
		By uuid.UUID
		At time.Time
	}
	// Discard ends it if it is pending.
	Discard struct {
		Reason string
		At     time.Time
	}
	// Reinstate makes it pending again if it is discarded.
	Reinstate struct {
		Organization  uuid.UUID
		Destination   uuid.UUID
		Subscriptions []uuid.UUID // those that want it now
		At            time.Time
	}
	// DropReplay ends a replay that is still to be sent.
	DropReplay struct {
		Replay uuid.UUID
		Reason string
		At     time.Time
	}
	// RequestReplay asks for one more attempt of a delivery that has come to its end.
	RequestReplay struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Replay       uuid.UUID
		At           time.Time
	}
)

// Retry says when to try again after a failure.
type Retry struct {
	Schedule []time.Duration // waits after the first, second … failed automatic attempt
	Jitter   float64         // from -1 to 1: how much of Spread to add
	Spread   float64         // 0.2 means ±20 %
	Floor    time.Duration   // the endpoint's Retry-After; up to Spread is added, so that not all are due in one instant
	Never    bool            // the endpoint is gone
}

const maxFloor = 24 * time.Hour

// Next is when the automatic attempt after the n-th (from 1) is due, and false when there is none left.
func (r Retry) Next(n int, failedAt time.Time) (time.Time, bool) {
	if r.Never || n < 1 || n > len(r.Schedule) {
		return time.Time{}, false
	}
	wait := time.Duration(float64(r.Schedule[n-1]) * (1 + r.Spread*r.Jitter))
	floor := time.Duration(float64(r.Floor) * (1 + r.Spread*(1+r.Jitter)/2))
	floor = min(floor, max(r.Floor, maxFloor))
	return failedAt.Add(max(wait, floor)).Truncate(time.Microsecond), true
}

func (c RecordAttempt) decide(s State) ([]Event, error) {
	attempted := Attempted{
		Organization: c.Organization,
		Destination:  c.Destination,
		Number:       s.Attempts + 1,
		Trigger:      c.Trigger,
		Outcome:      c.Outcome,
		At:           c.At,
	}
	if c.Number != attempted.Number {
		attempted.RenumberedFrom = c.Number
	}
	attempted.Status, attempted.NextAttemptAt = c.after(s)
	return []Event{attempted}, nil
}

// after is the status after the attempt and, where that is pending, when the next one is due.
func (c RecordAttempt) after(s State) (Status, time.Time) {
	if c.Outcome.Succeeded() {
		return StatusSucceeded, time.Time{} // whatever it was before: it has arrived
	}
	switch status := s.status(); status {
	case StatusPending:
		if c.Number != s.Attempts+1 && c.Trigger == Automatic && !c.Retry.Never && !s.NextAttemptAt.IsZero() {
			return StatusPending, s.NextAttemptAt // the schedule goes by the attempt that was recorded first
		}
		if c.Trigger == Automatic {
			if next, left := c.Retry.Next(s.Automatic+1, c.At.Add(c.Outcome.Duration())); left {
				return StatusPending, next
			}
		}
		return StatusFailed, time.Time{}
	case StatusSucceeded, StatusFailed, StatusSuperseded, StatusDiscarded:
		return status, time.Time{} // a failure takes nothing back
	}
	return StatusFailed, time.Time{}
}

func (c Supersede) decide(s State) ([]Event, error) {
	if s.status() != StatusPending || s.Attempts > 0 {
		return nil, nil
	}
	return []Event{Superseded(c)}, nil
}

func (c Discard) decide(s State) ([]Event, error) {
	if s.status() != StatusPending {
		return nil, nil
	}
	return []Event{Discarded(c)}, nil
}

func (c Reinstate) decide(s State) ([]Event, error) {
	if s.status() != StatusDiscarded {
		return nil, nil
	}
	return []Event{Reinstated(c)}, nil
}

func (c DropReplay) decide(s State) ([]Event, error) {
	if s.Replay == uuid.Nil || s.Replay != c.Replay {
		return nil, nil
	}
	return []Event{ReplayDropped(c)}, nil
}

func (c RequestReplay) decide(s State) ([]Event, error) {
	switch {
	case s.Replay == c.Replay:
		return nil, nil
	case s.Replay != uuid.Nil:
		return nil, ErrReplaying
	}
	switch s.status() {
	case StatusSucceeded, StatusFailed:
		return []Event{ReplayRequested(c)}, nil
	case StatusSuperseded:
		return nil, ErrSuperseded
	case StatusDiscarded:
		return nil, &DiscardedError{Reason: s.Reason}
	case StatusPending:
	}
	return nil, ErrInFlight
}
