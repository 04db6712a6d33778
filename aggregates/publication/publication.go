// Package publication keeps what was published: one stream for each event, with one fact in it.
package publication

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a publication.
//
//sumtype:decl
type Event interface{ evolve(State) State }

// Published is an event that destinations may receive. Its id is the stream's.
type Published struct {
	Organization uuid.UUID       `json:"organization,omitzero"` // who published it, and the only one to see it where it has no feed
	Type         string          `json:"type"`
	Source       string          `json:"source"`
	Subject      string          `json:"subject,omitempty"`
	Time         time.Time       `json:"time"`
	FeedType     string          `json:"feedType,omitempty"`
	FeedID       uuid.UUID       `json:"feedId,omitzero"`
	Data         eventstore.JSON `json:"data"`
}

// State is what decisions need.
type State struct{ Exists bool }

func (Published) evolve(s State) State { s.Exists = true; return s }

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Publish records an event. Publishing one that exists changes nothing.
type Publish struct{ Published Published }

// ErrNobody: the event has neither a feed nor an organization, so nobody could ever see it.
var ErrNobody = errors.New("an event needs a feedId or an organizationId: without either nobody can see it")

func (c Publish) decide(s State) ([]Event, error) {
	if s.Exists {
		return nil, nil
	}
	if c.Published.FeedID == uuid.Nil && c.Published.Organization == uuid.Nil {
		return nil, ErrNobody
	}
	return []Event{c.Published}, nil
}

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Published]("publication.event-published.v1"),
)

// Aggregate binds it all to the streams "publication-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "publication",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
