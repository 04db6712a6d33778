package delivery

import (
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
)

// Reasons why a replay is refused.
var (
	ErrInFlight = errors.New("the delivery waits, is retried or is being sent, and a replay is for those that have " +
		"ended: POST /events/deliveries/{id}/retry sends one that waits now")
	ErrReplaying  = errors.New("another replay of this delivery is running: wait until it has ended")
	ErrSuperseded = errors.New("the delivery was superseded by a newer one, which can be replayed instead")
	ErrDiscarded  = errors.New("the delivery was discarded")
	// ErrRetired also answers for deliveries whose stream is gone.
	ErrRetired = errors.New("the delivery is retired: it was over for longer than this installation keeps deliveries " +
		"(CARILLON_RETAIN_DELIVERIES), and can't be sent again")
)

// Reasons why a retry is refused.
var (
	ErrEnded   = errors.New("the delivery has ended")
	ErrSending = errors.New("the delivery is being sent, or is next in line: wait for the outcome of this attempt")
	ErrOff     = errors.New("the delivery's destination is disabled: enable it first (PATCH /events/destinations/{ref} " +
		`with "status": "enabled", carillon destinations enable REF, or Enable on its page in the console), then what ` +
		"waits goes on by its schedule, or is sent now by POST /events/destinations/{ref}/recover")
)

// EndedError is ErrEnded with the status.
type EndedError struct{ Status Status }

// Error returns a text with the status, and how to send the event again if that is possible.
func (e *EndedError) Error() string {
	text := ErrEnded.Error() + " (" + string(e.Status) + "), and only one that waits can be retried: "
	switch e.Status {
	case StatusSuperseded:
		return text + "a newer one was sent instead; replay (POST /events/deliveries/{id}/replay) is for that one"
	case StatusDiscarded:
		return text + "replay can't send it either, a backfill does if a subscription wants its event now"
	case StatusPending, StatusSucceeded, StatusFailed:
	}
	return text + "POST /events/deliveries/{id}/replay sends it again"
}

// Unwrap returns ErrEnded.
func (e *EndedError) Unwrap() error { return ErrEnded }

// DiscardedError is ErrDiscarded with its cause.
type DiscardedError struct{ Reason string }

// Error returns a text with the cause, and how to get the event again.
func (e *DiscardedError) Error() string {
	return fmt.Sprintf("%v (%q): a backfill of the destination makes it pending again if a subscription wants it now",
		ErrDiscarded, e.Reason)
}

// Unwrap returns ErrDiscarded.
func (e *DiscardedError) Unwrap() error { return ErrDiscarded }

// Command is an intention; times, jitter and outcomes arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// RecordAttempt records a completed request. It never fails.
	RecordAttempt struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Type         string // of the event
		Number       int    // number at its start; a taken number means that two drivers sent it at once
		Trigger      Trigger
		Outcome      Outcome
		At           time.Time
		Retry        Retry
	}
	// Supersede ends the delivery in favour of a newer one, unless it was attempted, or a retry was requested.
	Supersede struct {
		By uuid.UUID
		At time.Time
	}
	// Discard ends the delivery if it is pending.
	Discard struct {
		Reason string
		At     time.Time
	}
	// Reinstate makes a discarded delivery pending again.
	Reinstate struct {
		Organization  uuid.UUID
		Destination   uuid.UUID
		Subscriptions []uuid.UUID // those that match it now
		At            time.Time
		RetiredBefore time.Time // Optional. A delivery without a change since counts as retired.
	}
	// DropReplay ends a replay that is not sent yet.
	DropReplay struct {
		Replay uuid.UUID
		Reason string
		At     time.Time
	}
	// RequestRetry makes the next attempt of a pending delivery due now. One that is due stays as it is.
	RequestRetry struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Sending      bool // an attempt is in flight, as far as is known
		Off          bool // its destination is disabled
		At           time.Time
	}
	// RequestReplay requests one more attempt of a completed delivery.
	RequestReplay struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Replay       uuid.UUID
		At           time.Time
		// Optional. A delivery without a change since counts as retired, though its stream may be there.
		RetiredBefore time.Time
	}
)

// Retry schedules the attempts after failures.
type Retry struct {
	Schedule []time.Duration // pauses after the first, second … failed automatic attempt
	Jitter   float64         // from -1 to 1: part of Spread to add
	Spread   float64         // 0.2 means ±20 %
	// the endpoint's Retry-After; up to Spread is added, so that deliveries are not due simultaneously
	Floor time.Duration
	Never bool // the endpoint is gone
}

const maxFloor = 24 * time.Hour

// Next returns the time of the automatic attempt after the n-th (from 1), and false if there is none left.
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
		Type:         c.Type,
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

// after returns the status after the attempt and, if that is pending, the time of the next one.
func (c RecordAttempt) after(s State) (Status, time.Time) {
	if c.Outcome.Succeeded() {
		return StatusSucceeded, time.Time{} // whatever the status was: it has arrived
	}
	switch status := s.status(); status {
	case StatusPending:
		if c.Number != s.Attempts+1 && c.Trigger == Automatic && !c.Retry.Never && !s.NextAttemptAt.IsZero() {
			return StatusPending, s.NextAttemptAt // the schedule follows the attempt that was recorded first
		}
		if c.Trigger == Automatic {
			if next, left := c.Retry.Next(s.Automatic+1, c.At.Add(c.Outcome.Duration())); left {
				return StatusPending, next
			}
		}
		return StatusFailed, time.Time{}
	case StatusSucceeded, StatusFailed, StatusSuperseded, StatusDiscarded:
		return status, time.Time{} // a failure does not revoke a success
	}
	return StatusFailed, time.Time{}
}

func (c Supersede) decide(s State) ([]Event, error) {
	if s.status() != StatusPending || s.Attempts > 0 || s.Retry {
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
	if s.status() != StatusDiscarded || s.ChangedAt.Before(c.RetiredBefore) {
		return nil, nil
	}
	return []Event{Reinstated{
		Organization:  c.Organization,
		Destination:   c.Destination,
		Subscriptions: c.Subscriptions,
		At:            c.At,
	}}, nil
}

func (c DropReplay) decide(s State) ([]Event, error) {
	if s.Replay == uuid.Nil || s.Replay != c.Replay {
		return nil, nil
	}
	return []Event{ReplayDropped(c)}, nil
}

func (c RequestRetry) decide(s State) ([]Event, error) {
	switch {
	case s.status() != StatusPending:
		return nil, &EndedError{Status: s.Status}
	case c.Off:
		return nil, ErrOff
	case c.Sending:
		return nil, ErrSending
	case s.Retry, !s.NextAttemptAt.IsZero() && !s.NextAttemptAt.After(c.At):
		return nil, nil
	}
	return []Event{RetryRequested{Organization: c.Organization, Destination: c.Destination, At: c.At}}, nil
}

func (c RequestReplay) decide(s State) ([]Event, error) {
	switch {
	case s.Replay == c.Replay:
		return nil, nil
	case s.Replay != uuid.Nil:
		return nil, ErrReplaying
	case s.Over() && s.ChangedAt.Before(c.RetiredBefore):
		return nil, ErrRetired
	}
	switch s.status() {
	case StatusSucceeded, StatusFailed:
		return []Event{ReplayRequested{
			Organization: c.Organization,
			Destination:  c.Destination,
			Replay:       c.Replay,
			At:           c.At,
		}}, nil
	case StatusSuperseded:
		return nil, ErrSuperseded
	case StatusDiscarded:
		return nil, &DiscardedError{Reason: s.Reason}
	case StatusPending:
	}
	return nil, ErrInFlight
}
