// Package happening decides about one happening of the outside world ("eventId" in the API): what its sources show of
// it.
//
//	per source:  (none) ──Observe──▶ shown ──Observe, different──▶ shown (revised)
//	                                  ▲  └──MarkStale──▶ stale (no longer on show, which is no cancellation)
//	                                  └────Observe──────────┘
//
// The id of a happening is derived from the evidence that identifies it, see DeriveID: sources that show the same
// happening meet in one stream. Each tells what it shows; Combine says what follows of it all. Where an occurrence is
// another one after that, this is recorded too.
package happening

import (
	"crypto/sha256"
	"encoding/json"
	"maps"
	"slices"
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
		Standing    Standing   `json:"standing,omitzero"` // 0 in events of earlier times
		Origins     []Origin   `json:"origins,omitempty"`
		// Of is the happening that it was observed as, where that was merged into this one.
		Of uuid.UUID `json:"of,omitzero"`
		// Version counts the changes at the source, as SEQUENCE of iCalendar does. Optional.
		Version int `json:"version,omitzero"`
	}
	// Revised says that the source shows it differently now.
	Revised struct {
		SourceID uuid.UUID `json:"sourceId"`
		Details  Details   `json:"details"`
		Source   Block     `json:"source"`
		At       time.Time `json:"at"`
		Standing Standing  `json:"standing,omitzero"`
		Origins  []Origin  `json:"origins,omitempty"`
		Of       uuid.UUID `json:"of,omitzero"`
		Version  int       `json:"version,omitzero"`
	}
	// WentStale says that the source shows it no longer.
	WentStale struct {
		SourceID uuid.UUID `json:"sourceId"`
		At       time.Time `json:"at"`
		Of       uuid.UUID `json:"of,omitzero"`
	}
	// OccurrenceChanged says that an occurrence was cancelled, postponed or moved, or that this was taken back, as all
	// who tell of the happening tell it together.
	OccurrenceChanged struct {
		InstanceID   uuid.UUID  `json:"instanceId"`
		OccurrenceID uuid.UUID  `json:"occurrenceId"`
		Title        string     `json:"title"`
		Start        time.Time  `json:"start"`
		End          *time.Time `json:"end,omitzero"`
		Status       Status     `json:"status"`
		// PreviousStatus and PreviousStart are set where they were others.
		PreviousStatus Status     `json:"previousStatus,omitzero"`
		PreviousStart  *time.Time `json:"previousStart,omitzero"`
		SourceID       uuid.UUID  `json:"sourceId"` // what it tells brought the change
		At             time.Time  `json:"at"`
	}
	// Merged says that two happenings are one. It is recorded in both: with From in the one that stays, with Into in the
	// other one. From then on what is told of the other one is told of the one that stays, too.
	Merged struct {
		From uuid.UUID `json:"from,omitzero"`
		// Members were merged into From before, and come with it.
		Members []uuid.UUID `json:"members,omitempty"`
		Into    uuid.UUID   `json:"into,omitzero"`
		Reason  string      `json:"reason"`
		Score   float64     `json:"score"` // how alike their titles are, from 0 to 1
		At      time.Time   `json:"at"`
	}
	// Split says that they are two after all. They are never merged again.
	Split struct {
		From    uuid.UUID   `json:"from,omitzero"`
		Members []uuid.UUID `json:"members,omitempty"` // go with it
		// Sources tell no longer of the one that stayed.
		Sources []uuid.UUID `json:"sources,omitempty"`
		Into    uuid.UUID   `json:"into,omitzero"`
		At      time.Time   `json:"at"`
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

// Teller tells those apart who tell of a happening.
type Teller struct {
	Source uuid.UUID
	Of     uuid.UUID // see Observed
}

// State is what decisions need.
type State struct {
	Tellings map[Teller]Telling
	Into     uuid.UUID                 // merged into; zero for none
	Holds    map[uuid.UUID][]uuid.UUID // what was merged into it, with what came with that
	Apart    map[uuid.UUID]bool        // never to be merged with
}

// Combine puts together what all sources tell.
func (s State) Combine() Combined {
	return Combine(slices.Collect(maps.Values(s.Tellings)))
}

func (e Observed) evolve(s State) State {
	t := s.Tellings[Teller{Source: e.SourceID, Of: e.Of}]
	t.Observe(e)
	return s.with(t)
}

func (e Revised) evolve(s State) State {
	t := s.Tellings[Teller{Source: e.SourceID, Of: e.Of}]
	t.Revise(e)
	return s.with(t)
}

func (e WentStale) evolve(s State) State {
	t := s.Tellings[Teller{Source: e.SourceID, Of: e.Of}]
	t.SourceID, t.Of, t.Stale = e.SourceID, e.Of, true
	return s.with(t)
}

// It follows from what is told, and is recorded for those who want to hear of it.
func (OccurrenceChanged) evolve(s State) State { return s }

func (e Merged) evolve(s State) State {
	if e.From == uuid.Nil {
		s.Into = e.Into
		return s
	}
	s.Holds = maps.Clone(s.Holds)
	if s.Holds == nil {
		s.Holds = map[uuid.UUID][]uuid.UUID{}
	}
	s.Holds[e.From] = e.Members
	return s
}

func (e Split) evolve(s State) State {
	s.Apart = maps.Clone(s.Apart)
	if s.Apart == nil {
		s.Apart = map[uuid.UUID]bool{}
	}
	if e.From == uuid.Nil {
		s.Apart[e.Into], s.Into = true, uuid.Nil
		return s
	}
	s.Apart[e.From] = true
	s.Tellings = s.without(e.From, e.Members)
	left := map[uuid.UUID][]uuid.UUID{}
	for held, members := range s.Holds {
		if held != e.From {
			left[held] = slices.DeleteFunc(slices.Clone(members), func(id uuid.UUID) bool {
				return id == e.From || slices.Contains(e.Members, id)
			})
		}
	}
	s.Holds = left
	return s
}

// without are the tellings but those of a happening that was merged, and of those that came with it.
func (s State) without(other uuid.UUID, members []uuid.UUID) map[Teller]Telling {
	left := maps.Clone(s.Tellings)
	maps.DeleteFunc(left, func(teller Teller, _ Telling) bool {
		return teller.Of == other || teller.Of != uuid.Nil && slices.Contains(members, teller.Of)
	})
	return left
}

// with copies: earlier states stay as they were.
func (s State) with(t Telling) State {
	all := make(map[Teller]Telling, len(s.Tellings)+1)
	maps.Copy(all, s.Tellings)
	all[Teller{Source: t.SourceID, Of: t.Of}] = t
	s.Tellings = all
	return s
}

// Observe takes over what an event says. On a Telling of nothing it begins it.
func (t *Telling) Observe(e Observed) {
	if t.Since.IsZero() {
		t.SourceID, t.Of, t.Since = e.SourceID, e.Of, e.At
	}
	if e.PublishedAt != nil {
		t.PublishedAt = e.PublishedAt
	}
	t.Keys, t.Version = e.Keys, e.Version
	t.tell(e.Details, e.Source, e.Standing, e.Origins, e.At)
}

// Revise takes over what an event says.
func (t *Telling) Revise(e Revised) {
	t.SourceID, t.Of, t.Version = e.SourceID, e.Of, e.Version
	t.tell(e.Details, e.Source, e.Standing, e.Origins, e.At)
}

func (t *Telling) tell(details Details, source Block, standing Standing, origins []Origin, at time.Time) {
	if !slices.EqualFunc(t.Details.Instances, details.Instances, Instance.Equal) {
		t.DatedAt = at
	}
	t.Details, t.Source, t.Standing, t.Origins, t.Stale = details, source, standing, origins, false
}

// Digest is a short digest of what a source shows. Equal digests mean that nothing changed; different ones may.
func Digest(d Details, source Block, standing Standing) ([]byte, error) {
	data, err := json.Marshal(struct { //nolint:musttag // hashed, and read by nobody
		Details  Details
		Source   Block
		Standing Standing
	}{d, source, standing})
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
	eventstore.Case[Event, OccurrenceChanged]("happening.occurrence-changed.v1"),
	eventstore.Case[Event, Merged]("happening.merged.v1"),
	eventstore.Case[Event, Split]("happening.split.v1"),
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
