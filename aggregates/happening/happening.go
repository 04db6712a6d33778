// Package happening implements the aggregate of one happening of the outside world ("eventId" in the API).
//
//	per source:  (none) ──Observe──▶ shown ──Observe, different──▶ shown (revised)
//	                                  ▲  └──MarkStale──▶ stale (no longer visible; not a cancellation)
//	                                  └────Observe──────────┘
//
// The id of a happening is derived from the evidence that identifies it, see DeriveID, so that sources of the same
// happening share a stream. Each source has its sighting; Combine combines them. A change of an occurrence of the
// combined happening is recorded too.
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
type Event interface {
	evolve(State) State
	at() time.Time
}

type (
	// Observed records that a source shows the happening: for the first time, or again after it went stale.
	Observed struct {
		SourceID    uuid.UUID  `json:"sourceId"`
		Key         string     `json:"key"` // evidence of the id
		Keys        []string   `json:"keys,omitempty"`
		Details     Details    `json:"details"`
		PublishedAt *time.Time `json:"publishedAt,omitempty"` // at the source. Optional
		Source      Block      `json:"source"`
		At          time.Time  `json:"at"`
		Standing    Standing   `json:"standing,omitzero"` // 0 in old events
		Origins     []Origin   `json:"origins,omitempty"`
		// Of is the happening that was observed, if it was merged into this one.
		Of uuid.UUID `json:"of,omitzero"`
		// Version counts changes at the source, as SEQUENCE of iCalendar does. Optional.
		Version int `json:"version,omitzero"`
	}
	// Revised records that the source shows other details.
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
	// WentStale records that the source no longer shows the happening.
	WentStale struct {
		SourceID uuid.UUID `json:"sourceId"`
		At       time.Time `json:"at"`
		Of       uuid.UUID `json:"of,omitzero"`
	}
	// OccurrenceChanged records that an occurrence of the combined happening was cancelled, postponed or moved, or that
	// this was revoked.
	OccurrenceChanged struct {
		InstanceID   uuid.UUID  `json:"instanceId"`
		OccurrenceID uuid.UUID  `json:"occurrenceId"`
		Title        string     `json:"title"`
		Start        time.Time  `json:"start"`
		End          *time.Time `json:"end,omitzero"`
		Status       Status     `json:"status"`
		// PreviousStatus and PreviousStart are set if they have changed.
		PreviousStatus Status     `json:"previousStatus,omitzero"`
		PreviousStart  *time.Time `json:"previousStart,omitzero"`
		SourceID       uuid.UUID  `json:"sourceId"` // cause of the change
		At             time.Time  `json:"at"`
	}
	// Merged records that two happenings are the same. Both streams have it: the one that stays with From, the other with
	// Into. From then on, observations of the other are recorded in both.
	Merged struct {
		From uuid.UUID `json:"from,omitzero"`
		// Members were merged into From earlier, and follow it.
		Members []uuid.UUID `json:"members,omitempty"`
		Into    uuid.UUID   `json:"into,omitzero"`
		Reason  string      `json:"reason"`
		Score   float64     `json:"score"` // similarity of their titles, from 0 to 1
		At      time.Time   `json:"at"`
	}
	// Split records that merged happenings differ. They are never merged again.
	Split struct {
		From    uuid.UUID   `json:"from,omitzero"`
		Members []uuid.UUID `json:"members,omitempty"` // follow it
		// Sources no longer count for the one that stayed.
		Sources []uuid.UUID `json:"sources,omitempty"`
		Into    uuid.UUID   `json:"into,omitzero"`
		At      time.Time   `json:"at"`
	}
)

// Block describes the place of an observation, as the interface shows it with include=source.
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

// SightingKey identifies a sighting.
type SightingKey struct {
	Source uuid.UUID
	Of     uuid.UUID // see Observed
}

// State is the state for decisions.
type State struct {
	Sightings map[SightingKey]Sighting
	Into      uuid.UUID                 // merged into; zero if it is not merged
	Holds     map[uuid.UUID][]uuid.UUID // merged into this one, with their members
	Apart     map[uuid.UUID]bool        // must not be merged with

	ChangedAt time.Time // last event
}

// OverAt returns the time since which the happening is over and nothing was recorded of it: its last occurrence has
// ended then or, without any date, its last source has dropped it. It is zero if that time never comes.
func (s State) OverAt() time.Time {
	var last time.Time
	shown := false
	for _, t := range s.Sightings {
		if at := t.Details.Last(); at.After(last) {
			last = at
		}
		shown = shown || !t.Stale
	}
	switch {
	case last.IsZero() && shown:
		return time.Time{}
	case last.After(s.ChangedAt):
		return last
	}
	return s.ChangedAt
}

// Over reports whether the happening is over since before a time. Nothing is before the zero time.
func (s State) Over(before time.Time) bool {
	at := s.OverAt()
	return !at.IsZero() && at.Before(before)
}

// Combine combines the sightings of all sources.
func (s State) Combine() Combined {
	return Combine(slices.Collect(maps.Values(s.Sightings)))
}

func (e Observed) evolve(s State) State {
	t := s.Sightings[SightingKey{Source: e.SourceID, Of: e.Of}]
	t.Observe(e)
	return s.with(t)
}

func (e Revised) evolve(s State) State {
	t := s.Sightings[SightingKey{Source: e.SourceID, Of: e.Of}]
	t.Revise(e)
	return s.with(t)
}

func (e WentStale) evolve(s State) State {
	t := s.Sightings[SightingKey{Source: e.SourceID, Of: e.Of}]
	t.SourceID, t.Of, t.Stale = e.SourceID, e.Of, true
	return s.with(t)
}

// evolve keeps the state: the event follows from others, and is recorded for subscribers.
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
	s.Sightings = s.without(e.From, e.Members)
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

// without returns the sightings except those of a merged happening and its members.
func (s State) without(other uuid.UUID, members []uuid.UUID) map[SightingKey]Sighting {
	left := maps.Clone(s.Sightings)
	maps.DeleteFunc(left, func(from SightingKey, _ Sighting) bool {
		return from.Of == other || from.Of != uuid.Nil && slices.Contains(members, from.Of)
	})
	return left
}

// with returns a copy, so that earlier states stay unchanged.
func (s State) with(t Sighting) State {
	all := make(map[SightingKey]Sighting, len(s.Sightings)+1)
	maps.Copy(all, s.Sightings)
	all[SightingKey{Source: t.SourceID, Of: t.Of}] = t
	s.Sightings = all
	return s
}

// Observe applies an event. It initializes an empty Sighting.
func (t *Sighting) Observe(e Observed) {
	if t.Since.IsZero() {
		t.SourceID, t.Of, t.Since = e.SourceID, e.Of, e.At
	}
	if e.PublishedAt != nil {
		t.PublishedAt = e.PublishedAt
	}
	t.Keys, t.Version = e.Keys, e.Version
	t.set(e.Details, e.Source, e.Standing, e.Origins, e.At)
}

// Revise applies an event.
func (t *Sighting) Revise(e Revised) {
	t.SourceID, t.Of, t.Version = e.SourceID, e.Of, e.Version
	t.set(e.Details, e.Source, e.Standing, e.Origins, e.At)
}

func (t *Sighting) set(details Details, source Block, standing Standing, origins []Origin, at time.Time) {
	if !slices.EqualFunc(t.Details.Instances, details.Instances, Instance.Equal) {
		t.DatedAt = at
	}
	t.Details, t.Source, t.Standing, t.Origins, t.Stale = details, source, standing, origins, false
}

// Digest returns a short digest of a source's details. Different digests of equal details are possible.
func Digest(d Details, source Block, standing Standing) ([]byte, error) {
	data, err := json.Marshal(struct { //nolint:musttag // only hashed, never decoded
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

// Last returns the end of the last occurrence or, without an end, its start; zero without occurrences.
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

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Observed]("happening.observed.v1"),
	eventstore.Case[Event, Revised]("happening.revised.v1"),
	eventstore.Case[Event, WentStale]("happening.went-stale.v1"),
	eventstore.Case[Event, OccurrenceChanged]("happening.occurrence-changed.v1"),
	eventstore.Case[Event, Merged]("happening.merged.v1"),
	eventstore.Case[Event, Split]("happening.split.v1"),
)

// Aggregate binds the functions to the streams "happening-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "happening",
	Codec:    Events,
	Evolve:   evolve,
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

func evolve(s State, e Event) State {
	s = e.evolve(s)
	if at := e.at(); at.After(s.ChangedAt) {
		s.ChangedAt = at
	}
	return s
}

func (e Observed) at() time.Time          { return e.At }
func (e Revised) at() time.Time           { return e.At }
func (e WentStale) at() time.Time         { return e.At }
func (e OccurrenceChanged) at() time.Time { return e.At }
func (e Merged) at() time.Time            { return e.At }
func (e Split) at() time.Time             { return e.At }

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
