// Package item implements the aggregate of one item: a happening in a feed.
//
//	(none) ──Add──▶ in the feed ◀──Add── removed
//	                     └──Remove──────────▲
//
// The id of an item is derived from its feed and its happening, see ID. An item in the feed accepts feedback.
package item

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about an item.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Added adds the happening to the feed.
	Added struct {
		FeedID      uuid.UUID `json:"feedId"`
		HappeningID uuid.UUID `json:"happeningId"`
		SourceID    uuid.UUID `json:"sourceId"`           // its source
		Backfill    bool      `json:"backfill,omitempty"` // added together with its source, without publishing
		At          time.Time `json:"at"`
	}
	// Removed removes the happening from the feed.
	Removed struct {
		FeedID      uuid.UUID `json:"feedId"`
		HappeningID uuid.UUID `json:"happeningId"`
		Reason      string    `json:"reason"`
		At          time.Time `json:"at"`
	}
	// FeedbackGiven is an organization's feedback; there may be many.
	FeedbackGiven struct {
		FeedID       uuid.UUID `json:"feedId"`
		FeedbackID   uuid.UUID `json:"feedbackId"`
		Organization uuid.UUID `json:"organization"`
		Rating       string    `json:"rating"`
		Comment      string    `json:"comment,omitempty"`
		At           time.Time `json:"at"`
	}
)

// Kinds of feedback.
const (
	Positive = "positive"
	Negative = "negative"
	Neutral  = "neutral"
)

// State is the state for decisions.
type State struct {
	FeedID      uuid.UUID // zero before the first addition
	HappeningID uuid.UUID
	InFeed      bool
	Feedback    uuid.UUID // the last one
}

func (e Added) evolve(s State) State {
	s.FeedID, s.HappeningID, s.InFeed = e.FeedID, e.HappeningID, true
	return s
}

func (Removed) evolve(s State) State         { s.InFeed = false; return s }
func (e FeedbackGiven) evolve(s State) State { s.Feedback = e.FeedbackID; return s }

// ErrUnknown is returned for a missing or removed item.
var ErrUnknown = errors.New("item does not exist")

// Command is an intention; times and new ids arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Add adds the happening to the feed. Repeating it changes nothing.
	Add struct {
		FeedID      uuid.UUID
		HappeningID uuid.UUID
		SourceID    uuid.UUID
		Backfill    bool
		At          time.Time
	}
	// Remove removes the happening. Repeating it changes nothing.
	Remove struct {
		Reason string
		At     time.Time
	}
	// GiveFeedback adds feedback.
	GiveFeedback struct {
		FeedID       uuid.UUID
		FeedbackID   uuid.UUID
		Organization uuid.UUID
		Rating       string
		Comment      string
		At           time.Time
	}
)

var idNamespace = uuid.MustParse("5f5fb1b4-50a4-5c39-8a06-0f6f1f3ac2d7")

// ID derives the item's id from its feed and its happening.
func ID(feed, happening uuid.UUID) uuid.UUID {
	var evidence [32]byte
	copy(evidence[:16], feed[:])
	copy(evidence[16:], happening[:])
	return uuid.NewSHA1(idNamespace, evidence[:])
}

func (c Add) decide(s State) ([]Event, error) {
	if s.InFeed {
		return nil, nil
	}
	return []Event{Added(c)}, nil
}

func (c Remove) decide(s State) ([]Event, error) {
	if !s.InFeed {
		return nil, nil
	}
	return []Event{Removed{
		FeedID:      s.FeedID,
		HappeningID: s.HappeningID,
		Reason:      c.Reason,
		At:          c.At,
	}}, nil
}

func (c GiveFeedback) decide(s State) ([]Event, error) {
	switch {
	case !s.InFeed || s.FeedID != c.FeedID:
		return nil, ErrUnknown
	case s.Feedback == c.FeedbackID:
		return nil, nil
	}
	return []Event{FeedbackGiven(c)}, nil
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Added]("item.added.v1"),
	eventstore.Case[Event, Removed]("item.removed.v1"),
	eventstore.Case[Event, FeedbackGiven]("item.feedback-given.v1"),
)

// Aggregate binds the functions to the streams "item-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "item",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
