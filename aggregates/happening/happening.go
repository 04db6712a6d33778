// Package happening decides about one happening of the outside world ("eventId" in the API): what its sources show of
// it.
//
//	per source:  (none) ──Observe──▶ shown ──Observe, different──▶ shown (revised)
//	                                  ▲  └──MarkStale──▶ stale (no longer on show, which is no cancellation)
//	                                  └────Observe──────────┘
//
// The id of a happening is derived from the evidence that identifies it, see DeriveID: sources that show the same
// happening meet in one stream. Details says what is known of it.
package happening

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a happening.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Observed says that a source shows the happening: for the first time, or again after it went stale there.
	Observed struct {
		SourceID    uuid.UUID  `json:"sourceId"`
		Key         string     `json:"key"` // the evidence that the id is derived from
		Keys        []string   `json:"keys,omitempty"`
		Details     Details    `json:"details"`
		PublishedAt *time.Time `json:"publishedAt,omitempty"` // at the source, if it says so
		Source      Block      `json:"source"`
		At          time.Time  `json:"at"`
	}
	// Revised says that the source shows it differently now.
	Revised struct {
		SourceID uuid.UUID `json:"sourceId"`
		Details  Details   `json:"details"`
		Source   Block     `json:"source"`
		At       time.Time `json:"at"`
	}
	// WentStale says that the source shows it no longer.
	WentStale struct {
		SourceID uuid.UUID `json:"sourceId"`
		At       time.Time `json:"at"`
	}
)

// Block describes where a happening was seen, as the interface shows it with include=source.
type Block struct {
	Type         string     `json:"type"`
	Subtype      string     `json:"subtype,omitempty"`
	URL          string     `json:"url,omitempty"`
	PermalinkURL string     `json:"permalinkUrl,omitempty"`
	Publisher    *Publisher `json:"publisher,omitempty"`
}

// Publisher is the account behind a platform's post or event.
type Publisher struct {
	Type      string `json:"type,omitempty"`
	Name      string `json:"name,omitempty"`
	Username  string `json:"username,omitempty"`
	AvatarURL string `json:"avatarUrl,omitempty"`
}

// Equal compares what the pointers point to.
func (b Block) Equal(o Block) bool {
	same := equalPtr(b.Publisher, o.Publisher, func(p, q Publisher) bool { return p == q })
	b.Publisher, o.Publisher = nil, nil
	return same && b == o
}

// State is what decisions need.
type State struct {
	Shown map[uuid.UUID]Shown // by source
}

// Shown is what a source showed last.
type Shown struct {
	Details Details
	Source  Block
	Stale   bool
}

func (e Observed) evolve(s State) State {
	return s.with(e.SourceID, Shown{Details: e.Details, Source: e.Source})
}

func (e Revised) evolve(s State) State {
	return s.with(e.SourceID, Shown{Details: e.Details, Source: e.Source})
}

func (e WentStale) evolve(s State) State {
	shown := s.Shown[e.SourceID]
	shown.Stale = true
	return s.with(e.SourceID, shown)
}

// with copies: earlier states stay as they were.
func (s State) with(source uuid.UUID, shown Shown) State {
	all := make(map[uuid.UUID]Shown, len(s.Shown)+1)
	maps.Copy(all, s.Shown)
	all[source] = shown
	s.Shown = all
	return s
}

// Digest is a short digest of what a source shows. Equal digests mean that nothing changed; different ones may.
func Digest(d Details, source Block) ([]byte, error) {
	data, err := json.Marshal(Shown{Details: d, Source: source}) //nolint:musttag // hashed, and read by nobody
	if err != nil {
		return nil, err
	}
	sum := sha256.Sum256(data)
	return sum[:16], nil
}

// Last is when the last occurrence ends or, where no end is known, starts; zero without occurrences.
func (d Details) Last() time.Time {
	var last time.Time
	for _, instance := range d.Instances {
		for _, o := range instance.Occurrences {
			end := o.Start
			if o.End != nil {
				end = *o.End
			}
			if end.After(last) {
				last = end
			}
		}
	}
	return last
}

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Observed]("happening.observed.v1"),
	eventstore.Case[Event, Revised]("happening.revised.v1"),
	eventstore.Case[Event, WentStale]("happening.went-stale.v1"),
)

// Aggregate binds it all to the streams "happening-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "happening",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
