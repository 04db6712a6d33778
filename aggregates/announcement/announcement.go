// Package announcement records irreversible acts by the clock before they happen, with the share of the log that they
// take: what a clock that is wrong would take can be seen, and prevented, before it is gone.
//
//	(none) ──Make──▶ announced ──Make──▶ announced …
//
// Each act has one stream, whatever process announces it. See package irreversible.
package announcement

import (
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

const (
	// largeShare is the part of the log above which an act has to be announced twice: one in largeShare.
	largeShare = 10
	// maxPause is how long an announcement lasts without another one.
	maxPause = 48 * time.Hour
)

// Event is a stored fact about an act.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// Made announces an act: what it would take now.
type Made struct {
	Act string    `json:"act"`
	Due int       `json:"due"`
	Of  int       `json:"of"`
	At  time.Time `json:"at"` // by Postgres' clock
}

// State holds how long an act is announced. Zero means never.
type State struct {
	Since time.Time // when an act of this size was first announced, and again and again without a long pause
	Last  time.Time
	Due   int // the least since then
}

// Large reports whether a part of the log is more than a tenth of it.
func Large(due, of int) bool { return of > 0 && due > of/largeShare }

// evolve begins again if time went back or on by much, or much more is due than was announced.
func (e Made) evolve(s State) State {
	pause := e.At.Sub(s.Last)
	if s.Since.IsZero() || pause < 0 || pause > maxPause || Large(e.Due-s.Due, e.Of) {
		return State{Since: e.At, Last: e.At, Due: e.Due}
	}
	s.Last, s.Due = e.At, min(s.Due, e.Due)
	return s
}

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Make announces an act.
type Make Made

func (c Make) decide(State) ([]Event, error) { return []Event{Made(c)}, nil }

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(eventstore.Case[Event, Made]("announcement.made.v1"))

// Aggregate binds the functions to the streams "announcement-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "announcement",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// acts is the name space of StreamID.
var acts = uuid.MustParse("2f6d1c0e-7b7a-4c58-9e39-51a6b0d7c2f4")

// StreamID derives the id of an act's stream from its name.
func StreamID(act string) uuid.UUID { return uuid.NewSHA1(acts, []byte(act)) }
