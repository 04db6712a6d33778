// Package item decides about one item: a happening in a feed.
//
//	(none) ──Add──▶ in the feed ◀──Add── removed
//	                     └──Remove──────────▲
//
// The id of an item is derived from its feed and its happening, see ID. Feedback can be given while it is in the feed.
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
	// Added puts the happening into the feed.
	Added struct {
		FeedID      uuid.UUID `json:"feedId"`
		HappeningID uuid.UUID `json:"happeningId"`
		SourceID    uuid.UUID `json:"sourceId"`           // at which it was seen
		Backfill    bool      `json:"backfill,omitempty"` // it came with its source and is no news
		At          time.Time `json:"at"`
	}
	// Removed takes it out.
	Removed struct {
		FeedID      uuid.UUID `json:"feedId"`
		HappeningID uuid.UUID `json:"happeningId"`
		Reason      string    `json:"reason"`
		At          time.Time `json:"at"`
	}
	// FeedbackGiven is an organization's opinion; there may be many.
	FeedbackGiven struct {
		FeedID       uuid.UUID `json:"feedId"`
		FeedbackID   uuid.UUID `json:"feedbackId"`
		Organization uuid.UUID `json:"organization"`
		Rating       string    `json:"rating"`
		Comment      string    `json:"comment,omitempty"`
		At           time.Time `json:"at"`
	}
)

// What a reader can think of an item.
const (
	Positive = "positive"
	Negative = "negative"
	Neutral  = "neutral"
)

// State is what decisions need.
type State struct {
	FeedID      uuid.UUID // zero for an item that never was
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

// ErrUnknown: the item does not exist, or is not in the feed any more.
var ErrUnknown = errors.New("item does not exist")

// Command is an intention; times and new ids arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Add puts the happening into the feed. Adding what is there changes nothing.
	Add struct {
		FeedID      uuid.UUID
		HappeningID uuid.UUID
		SourceID    uuid.UUID
		Backfill    bool
		At          time.Time
	}
	// Remove takes it out. Removing what is not there changes nothing.
	Remove struct {
		Reason string
		At     time.Time
	}
	// GiveFeedback adds an opinion.
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

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Added]("item.added.v1"),
	eventstore.Case[Event, Removed]("item.removed.v1"),
	eventstore.Case[Event, FeedbackGiven]("item.feedback-given.v1"),
)

// Aggregate binds it all to the streams "item-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "item",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
