// Package publication records published events: one stream for each event, with one fact.
package publication

import (
	"errors"
	"strings"
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
	// The publishing organization, and the only reader of an event without a feed
	Organization uuid.UUID       `json:"organization,omitzero"`
	Type         string          `json:"type"`
	Source       string          `json:"source"`
	Subject      string          `json:"subject,omitempty"`
	Time         time.Time       `json:"time"`
	FeedType     string          `json:"feedType,omitempty"`
	FeedID       uuid.UUID       `json:"feedId,omitzero"`
	Data         eventstore.JSON `json:"data"`
}

// State is the state for decisions.
type State struct {
	First *Published // Optional: nil before the event is published.
}

func (e Published) evolve(s State) State { s.First = &e; return s }

// Command is an intention.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

// Publish records an event. Repeating it changes nothing; another event with the same id is refused.
type Publish struct{ Published Published }

// ErrNobody is returned for an event without a feed and an organization, which would have no reader.
var ErrNobody = errors.New("an event needs a feedId or an organizationId: without either it has no reader")

// DiffersError is returned for another event with the id of a published one.
type DiffersError struct {
	Members []string // different members, by the names that callers use
}

// Error implements error.
func (e *DiffersError) Error() string {
	return "an event with this id is published already and differs in " + strings.Join(e.Members, ", ")
}

func (c Publish) decide(s State) ([]Event, error) {
	if s.First != nil {
		if differ := s.First.differences(c.Published); len(differ) > 0 {
			return nil, &DiffersError{Members: differ}
		}
		return nil, nil
	}
	if c.Published.FeedID == uuid.Nil && c.Published.Organization == uuid.Nil {
		return nil, ErrNobody
	}
	return []Event{c.Published}, nil
}

// differences returns the names of different members. The time does not count, because it may be that of the clock.
func (e Published) differences(other Published) (members []string) {
	for _, m := range []struct {
		name string
		same bool
	}{
		{"type", e.Type == other.Type},
		{"organizationId", e.Organization == other.Organization},
		{"source", e.Source == other.Source},
		{"subject", e.Subject == other.Subject},
		{"feedType", e.FeedType == other.FeedType},
		{"feedId", e.FeedID == other.FeedID},
		{"data", eventstore.SameJSON(e.Data, other.Data)},
	} {
		if !m.same {
			members = append(members, m.name)
		}
	}
	return members
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Published]("publication.event-published.v1"),
)

// Aggregate binds the functions to the streams "publication-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "publication",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
