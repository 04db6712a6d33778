// Package treehead records signed heads of the tree over the log, and keeps the leaves of the events that each covers.
//
//	(none) ──Sign──▶ signed (final)
//
// Each head is a separate aggregate, in the stream that StreamID derives from its number, counted from 0 without a gap.
// Package seal defines the meaning of its fields.
package treehead

import (
	"bytes"
	"errors"
	"strconv"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a head.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// Signed records the state of the log up to an event.
type Signed struct {
	Number    uint64    `json:"number"`
	Size      uint64    `json:"size"` // events in the tree
	Root      []byte    `json:"root"`
	At        time.Time `json:"at"`
	Key       []byte    `json:"key"` // the public key
	Signature []byte    `json:"signature"`
	Leaves    []byte    `json:"leaves"` // of the events since the head before
	Nodes     []byte    `json:"nodes"`  // of the tree, by which the next one resumes it
	// the last event
	Stream   string              `json:"stream"`
	Revision eventstore.Revision `json:"revision"`
}

// State holds the signature. Nil means that there is no head.
type State struct{ Signature []byte }

func (e Signed) evolve(State) State { return State{Signature: e.Signature} }

// ErrTaken means that another head has this number.
var ErrTaken = errors.New("another tree head has this number")

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Sign records a head.
type Sign Signed

func (c Sign) decide(s State) ([]Event, error) {
	switch {
	case s.Signature == nil:
		return []Event{Signed(c)}, nil
	case bytes.Equal(s.Signature, c.Signature): // of the same events at another time it is another head
		return nil, nil
	}
	return nil, ErrTaken
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(eventstore.Case[Event, Signed]("treehead.signed.v1"))

// Aggregate binds the functions to the streams "treehead-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "treehead",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// heads is the name space of StreamID.
var heads = uuid.MustParse("8d3f4c7e-52a1-4b0e-9f0c-6a0d3b1c9e27")

// StreamID derives the id of a head's stream from its number.
func StreamID(number uint64) uuid.UUID {
	return uuid.NewSHA1(heads, strconv.AppendUint(nil, number, 10))
}
