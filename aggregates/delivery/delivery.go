// Package delivery implements the aggregate of one delivery: a published event on its way to one destination.
//
//	pending ──Attempted (2xx)──▶ succeeded ◀──Attempted by a replay (2xx)── failed
//	   │ ▲ └──Attempted (no 2xx), waits left──┐                               ▲
//	   │ └────────────────────────────────────┘    no waits left, or 410 ─────┘
//	   ├──Supersede──▶ superseded (a newer event in the debounce window)
//	   └──Discard────▶ discarded (its last subscription was deleted, or its organization lost the feed)
//	                       └──Reinstate──▶ pending
//
// RequestRetry makes the next attempt of a pending delivery due now.
//
// The stream begins with the first of these facts, because the dispatch records the existence of the delivery.
package delivery

import (
	"cmp"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a delivery.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Attempted is one request to the endpoint and its outcome.
	Attempted struct {
		Organization   uuid.UUID `json:"organization"`
		Destination    uuid.UUID `json:"destination"`
		Type           string    `json:"type,omitzero"` // of the event
		Number         int       `json:"number"`        // from 1, without gaps
		RenumberedFrom int       `json:"renumberedFrom,omitzero"`
		Trigger        Trigger   `json:"trigger"`
		Outcome
		Status        Status    `json:"status"`                 // of the delivery afterwards
		NextAttemptAt time.Time `json:"nextAttemptAt,omitzero"` // if the status is pending
		At            time.Time `json:"at"`                     // when the request began
	}
	// Superseded ends a delivery that a newer one replaces.
	Superseded struct {
		By uuid.UUID `json:"by"` // the newer delivery
		At time.Time `json:"at"`
	}
	// Discarded ends a delivery that no subscription matches any more, or that its organization may not see any more.
	Discarded struct {
		Reason string    `json:"reason"`
		At     time.Time `json:"at"`
	}
	// ReplayDropped ends a replay that must not be sent; the status of the delivery stays.
	ReplayDropped struct {
		Replay uuid.UUID `json:"replay"`
		Reason string    `json:"reason"`
		At     time.Time `json:"at"`
	}
	// Reinstated makes a discarded delivery pending again, with its retry schedule from the beginning.
	Reinstated struct {
		Organization  uuid.UUID   `json:"organization"`
		Destination   uuid.UUID   `json:"destination"`
		Subscriptions []uuid.UUID `json:"subscriptions"` // those that match it now
		At            time.Time   `json:"at"`
	}
	// RetryRequested makes the next automatic attempt due at once, instead of when the schedule or the debounce window
	// says.
	RetryRequested struct {
		Organization uuid.UUID `json:"organization"`
		Destination  uuid.UUID `json:"destination"`
		At           time.Time `json:"at"`
	}
	// ReplayRequested is a caller's request to send it again.
	ReplayRequested struct {
		Organization uuid.UUID `json:"organization"`
		Destination  uuid.UUID `json:"destination"`
		Replay       uuid.UUID `json:"replay"` // identifies the run
		At           time.Time `json:"at"`
	}
)

// Outcome is the result of one request.
type Outcome struct {
	ResponseStatus int    `json:"responseStatus,omitzero"` // 0 without an answer
	ResponseBody   []byte `json:"responseBody,omitempty"`  // sealed
	// ResponseHeaders are sealed. Only answers that were no success have some, since they are kept.
	ResponseHeaders []byte  `json:"responseHeaders,omitempty"`
	FailureReason   Failure `json:"failureReason,omitempty"` // empty for a success
	ErrorMessage    string  `json:"errorMessage,omitempty"`
	DurationMicros  int64   `json:"durationMicros"` // from the first byte sent to the last byte received
}

// Duration returns the duration of the request.
func (o Outcome) Duration() time.Duration { return time.Duration(o.DurationMicros) * time.Microsecond }

// Succeeded reports whether the answer was 2xx.
func (o Outcome) Succeeded() bool { return o.FailureReason == "" }

// Reasons of Discarded and ReplayDropped: the destination may not get the event any more.
const (
	ReasonNoFeed       = "the feed of its event was deleted"
	ReasonUnshared     = "the organization can no longer see the feed of its event"
	ReasonUnsubscribed = "the last subscription that asked for it was deleted"
)

// Trigger is the reason of an attempt.
type Trigger string

// Failures of both count for the destination; only automatic ones advance the retry schedule.
const (
	Automatic    Trigger = "automatic"     // the first attempt, or a retry
	ManualReplay Trigger = "manual_replay" // requested by a caller
)

// Status is the status of a delivery. A pending one that is being sent is shown as "delivering", which is a lease and
// not a fact.
type Status string

// A delivery begins as pending. All others are final, except for replays of succeeded or failed ones.
const (
	StatusPending    Status = "pending"    // an attempt is due, now or later
	StatusSucceeded  Status = "succeeded"  // the endpoint answered 2xx
	StatusFailed     Status = "failed"     // the last attempt of the schedule failed
	StatusSuperseded Status = "superseded" // a newer event of the same subject replaced it in the debounce window
	StatusDiscarded  Status = "discarded"  // its last subscription was deleted, or its organization lost the feed
)

// State is the state for decisions. The zero state is a pending delivery without attempts.
type State struct {
	Status        Status    // "" means pending, see status
	Attempts      int       // all of them
	Automatic     int       // those of the retry schedule
	NextAttemptAt time.Time // if the status is pending, and there were attempts or a retry was requested
	Retry         bool      // requested and not attempted yet
	Replay        uuid.UUID // requested and not attempted yet
	Reason        string    // reason of the discarding
	ChangedAt     time.Time // the end of the last attempt, or the time of a later event
}

// Over reports whether the delivery has a final status, and no replay is to be made.
func (s State) Over() bool { return s.status() != StatusPending && s.Replay == uuid.Nil }

// LostRace reports whether another driver sent the same attempt concurrently, and recorded it first. The attempt
// counts, but neither as a step of the retry schedule nor as another failure of the destination.
func (e Attempted) LostRace() bool { return e.RenumberedFrom != 0 }

// status returns the status with the default.
func (s State) status() Status { return cmp.Or(s.Status, StatusPending) }

func (e Attempted) evolve(s State) State {
	s.Status, s.Attempts, s.NextAttemptAt, s.Retry = e.Status, e.Number, e.NextAttemptAt, false
	s.changed(e.At.Add(e.Duration()))
	switch {
	case e.Trigger != Automatic:
		s.Replay = uuid.Nil
	case !e.LostRace():
		s.Automatic++
	}
	return s
}

func (s *State) changed(at time.Time) {
	if at.After(s.ChangedAt) {
		s.ChangedAt = at
	}
}

func (e Superseded) evolve(s State) State      { s.changed(e.At); s.Status = StatusSuperseded; return s }
func (e ReplayRequested) evolve(s State) State { s.changed(e.At); s.Replay = e.Replay; return s }
func (e ReplayDropped) evolve(s State) State   { s.changed(e.At); s.Replay = uuid.Nil; return s }

func (e RetryRequested) evolve(s State) State {
	s.changed(e.At)
	s.NextAttemptAt, s.Retry = e.At, true
	return s
}

func (e Discarded) evolve(s State) State {
	s.changed(e.At)
	s.Status, s.Reason, s.Replay, s.Retry = StatusDiscarded, e.Reason, uuid.Nil, false
	return s
}

func (e Reinstated) evolve(s State) State {
	s.changed(e.At)
	s.Status, s.Reason, s.Automatic, s.NextAttemptAt = StatusPending, "", 0, time.Time{}
	return s
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Attempted]("delivery.attempted.v1"),
	eventstore.Case[Event, Superseded]("delivery.superseded.v1"),
	eventstore.Case[Event, Discarded]("delivery.discarded.v1"),
	eventstore.Case[Event, ReplayRequested]("delivery.replay-requested.v1"),
	eventstore.Case[Event, ReplayDropped]("delivery.replay-dropped.v1"),
	eventstore.Case[Event, Reinstated]("delivery.reinstated.v1"),
	eventstore.Case[Event, RetryRequested]("delivery.retry-requested.v1"),
)

// Aggregate binds the functions to the streams "delivery-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "delivery",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// Failure is the reason of a failed attempt, as stored and shown.
type Failure string

// All reasons with their words for people. The API's document is held to them by a test.
var (
	FailureStatus     = failure("http_status", "Not a 2xx answer")
	FailureTimeout    = failure("timeout", "No answer in time")
	FailureConnection = failure("connection", "No connection")
	FailureDNS        = failure("dns", "Host not found")
	FailureTLS        = failure("tls", "No secure connection")
	FailureBlocked    = failure("blocked_address", "Address not allowed")
	FailureRedirect   = failure("redirect", "A redirect")
	FailureGone       = failure("gone", "No longer wanted")

	failureNames []string
	failureWords = map[Failure]string{}
)

// failure declares a reason.
func failure(name, words string) Failure {
	failureNames = append(failureNames, name)
	failureWords[Failure(name)] = words
	return Failure(name)
}

// FailureNames lists all reasons as stored.
func FailureNames() []string { return slices.Clone(failureNames) }

// Words returns the reason for people; a reason of another version as it is stored.
func (f Failure) Words() string { return cmp.Or(failureWords[f], string(f)) }
