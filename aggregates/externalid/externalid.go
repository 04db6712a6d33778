// Package externalid reserves names that callers choose: one stream for each name in its scope, so that exactly one of
// several concurrent claims succeeds.
//
//	free ──Claim──▶ claimed ──Release──▶ free
package externalid

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a name.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Claimed assigns the name to an owner.
	Claimed struct {
		Scope      uuid.UUID `json:"scope"` // organization of a destination, or destination of a subscription
		ExternalID string    `json:"externalId"`
		Owner      uuid.UUID `json:"owner"`
		At         time.Time `json:"at"`
	}
	// Released frees the name.
	Released struct {
		Owner uuid.UUID `json:"owner"`
		At    time.Time `json:"at"`
	}
)

// State is the state for decisions.
type State struct {
	Owner uuid.UUID
	Since time.Time
}

func (e Claimed) evolve(s State) State { s.Owner, s.Since = e.Owner, e.At; return s }
func (Released) evolve(s State) State  { s.Owner = uuid.Nil; return s }

// ErrTaken is returned if the name has another owner.
var ErrTaken = errors.New("externalId is taken")

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Claim requests the name. A repeated claim of the owner renews it, so that the release of an earlier one has no
	// effect. Abandoned is the claim of an owner that does not use the name, because it was never created, renamed or
	// deleted: it loses the name.
	Claim struct {
		Scope      uuid.UUID
		ExternalID string
		Owner      uuid.UUID
		Abandoned  State
		At         time.Time
	}
	// Release releases the name, unless it has another owner.
	Release struct {
		Owner uuid.UUID
		At    time.Time
	}
)

func (c Claim) decide(s State) ([]Event, error) {
	claimed := Claimed{
		Scope:      c.Scope,
		ExternalID: c.ExternalID,
		Owner:      c.Owner,
		At:         c.At,
	}
	switch {
	case s.Owner == c.Owner && s.Since.Equal(c.At):
		return nil, nil // repeated claim
	case s.Owner == c.Owner, s.Owner == uuid.Nil:
		return []Event{claimed}, nil
	case s.Owner == c.Abandoned.Owner && s.Since.Equal(c.Abandoned.Since):
		return []Event{Released{Owner: s.Owner, At: c.At}, claimed}, nil
	}
	return nil, ErrTaken
}

func (c Release) decide(s State) ([]Event, error) {
	if s.Owner != c.Owner || s.Owner == uuid.Nil {
		return nil, nil
	}
	return []Event{Released(c)}, nil
}

// StreamID derives the id of a name's stream.
func StreamID(scope uuid.UUID, externalID string) uuid.UUID {
	return uuid.NewSHA1(scope, []byte("externalId "+externalID))
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Claimed]("externalid.claimed.v1"),
	eventstore.Case[Event, Released]("externalid.released.v1"),
)

// Aggregate binds the functions to the streams "externalid-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "externalid",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
