// Package disclosure records when a destination's secrets are shown in full: to whom, which, when.
//
// A stream has one day (UTC) of one destination, so that it stays short however often a key reads. The destination's
// own stream, which every decision about it loads, has no entries of readers.
package disclosure

import (
	"maps"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Part is a part of a destination that was shown in full.
type Part string

// Kinds of secrets.
const (
	Secrets Part = "secrets" // signing secrets
	Address Part = "address" // a masked address
	Headers Part = "headers"
)

// Every returns the time in which a disclosure covers further ones of the same part to the same actor. Secrets are
// requested explicitly, and each time counts; addresses and headers are in every answer about a destination.
func (p Part) Every() time.Duration {
	if p == Secrets {
		return time.Hour
	}
	return 24 * time.Hour
}

// Stands reports whether a recorded disclosure covers another time. The zero time means none.
func (p Part) Stands(recorded, at time.Time) bool {
	return !recorded.IsZero() && at.Sub(recorded).Abs() < p.Every()
}

// Event is a stored fact about disclosures.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// Shown records that an actor was shown something in full: now, and maybe again until Part.Every is over.
type Shown struct {
	Destination uuid.UUID `json:"destination"`
	To          string    `json:"to"` // the actor: "key:<id>", or "console:<name>" for a session of a login link
	What        []Part    `json:"what"`
	// Secrets has the ids of the signing secrets that were shown. Events from before 2026-11-27 have none.
	Secrets []uuid.UUID `json:"secrets,omitempty"`
	At      time.Time   `json:"at"`
}

// State has the times of the last disclosures.
type State map[to]time.Time

type to struct {
	actor  string
	what   Part
	secret uuid.UUID // uuid.Nil for other parts
}

func (e Shown) evolve(s State) State {
	s = maps.Clone(s) // earlier states stay unchanged
	if s == nil {
		s = State{}
	}
	for _, what := range e.What {
		s[to{actor: e.To, what: what}] = e.At
	}
	for _, secret := range e.Secrets {
		s[to{actor: e.To, what: Secrets, secret: secret}] = e.At
	}
	return s
}

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Show records a disclosure, unless an earlier one covers it.
type Show Shown

func (c Show) decide(s State) ([]Event, error) {
	e := Shown(c)
	e.What, e.Secrets = Missing(c.What, c.Secrets, c.At, func(what Part, secret uuid.UUID) time.Time {
		return s[to{actor: c.To, what: what, secret: secret}]
	})
	if len(e.What) == 0 {
		return nil, nil
	}
	return []Event{e}, nil
}

// Missing returns the parts and secrets that no earlier disclosure covers: a rotated secret is not covered by one of
// its predecessor. last returns the time of the last disclosure.
func Missing(what []Part, secrets []uuid.UUID, at time.Time, last func(Part, uuid.UUID) time.Time) (
	parts []Part, ids []uuid.UUID) {
	for _, id := range secrets {
		if !Secrets.Stands(last(Secrets, id), at) {
			ids = append(ids, id)
		}
	}
	for _, part := range what {
		named := part == Secrets && len(secrets) > 0
		if named && len(ids) > 0 || !named && !part.Stands(last(part, uuid.Nil), at) {
			parts = append(parts, part)
		}
	}
	return parts, ids
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(eventstore.Case[Event, Shown]("disclosure.shown.v1"))

// Aggregate binds the functions to the streams "disclosure-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "disclosure",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// StreamID derives the id of a destination's stream for the day of a time.
func StreamID(destination uuid.UUID, at time.Time) uuid.UUID {
	return uuid.NewSHA1(destination, []byte("disclosures of "+at.UTC().Format(time.DateOnly)))
}
