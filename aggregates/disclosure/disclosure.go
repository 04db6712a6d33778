// Package disclosure decides what has to go on record of a destination's secrets being shown in full: to whom, what,
// when.
//
// A stream has one day (UTC) of one destination. So it stays short however long a key goes on looking, and the
// destination's own stream, which every decision about it loads, has no trace of who only looked.
package disclosure

import (
	"maps"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// What of a destination was shown in full.
type What string

// The kinds of secrets.
const (
	Secrets What = "secrets" // that sign
	Address What = "address" // of one that hides something
	Headers What = "headers"
)

// Every is for how long a disclosure stands for those that follow it, of the same to the same. Secrets are asked for by
// name, and when counts; addresses and headers are in every answer about a destination.
func (w What) Every() time.Duration {
	if w == Secrets {
		return time.Hour
	}
	return 24 * time.Hour
}

// Stands reports whether a disclosure that was recorded at one time is enough for another time. The zero time is none.
func (w What) Stands(recorded, at time.Time) bool {
	return !recorded.IsZero() && at.Sub(recorded).Abs() < w.Every()
}

// Event is a stored fact about disclosures.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// Shown says that somebody was given something in full: now, and maybe again until What.Every is over.
type Shown struct {
	Destination uuid.UUID `json:"destination"`
	To          string    `json:"to"` // the actor: "key:<id>", or "console" for who came by a login link
	What        []What    `json:"what"`
	At          time.Time `json:"at"`
}

// State is when what was shown last to whom.
type State map[to]time.Time

type to struct {
	actor string
	what  What
}

func (e Shown) evolve(s State) State {
	s = maps.Clone(s) // earlier states stay as they were
	if s == nil {
		s = State{}
	}
	for _, what := range e.What {
		s[to{actor: e.To, what: what}] = e.At
	}
	return s
}

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Show puts on record what is about to be shown, unless it is already.
type Show Shown

func (c Show) decide(s State) ([]Event, error) {
	e := Shown(c)
	e.What = nil
	for _, what := range c.What {
		if !what.Stands(s[to{actor: c.To, what: what}], c.At) {
			e.What = append(e.What, what)
		}
	}
	if len(e.What) == 0 {
		return nil, nil
	}
	return []Event{e}, nil
}

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(eventstore.Case[Event, Shown]("disclosure.shown.v1"))

// Aggregate binds it all to the streams "disclosure-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "disclosure",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]

// StreamID derives the id of a destination's stream of the day of a time.
func StreamID(destination uuid.UUID, at time.Time) uuid.UUID {
	return uuid.NewSHA1(destination, []byte("disclosures of "+at.UTC().Format(time.DateOnly)))
}
