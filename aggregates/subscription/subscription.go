// Package subscription implements the aggregate of one subscription of a destination.
//
//	(none) ──Create──▶ active ──Deactivate (feed access lost)──▶ inactive ──Revise{Active: true}──▶ active
//	                     └───────────────── Delete ─────────────────┴──▶ deleted (final)
//
// It also matches events: types by exact name or wildcard, feeds by scope.
package subscription

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a subscription.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Created creates a subscription, which is active.
	Created struct {
		Organization uuid.UUID `json:"organization"`
		Destination  uuid.UUID `json:"destination"`
		Settings     Settings  `json:"declaration"`
		At           time.Time `json:"at"`
	}
	// Revised replaces all settings.
	Revised struct {
		Settings Settings  `json:"declaration"`
		At       time.Time `json:"at"`
	}
	// Activated lets the subscription match again.
	Activated struct {
		At time.Time `json:"at"`
	}
	// Deactivated stops it from matching.
	Deactivated struct {
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// Deleted deletes the subscription.
	Deleted struct {
		At time.Time `json:"at"`
	}
)

// Scope kinds.
const (
	ScopeAll      = "all"       // every event the organization can see
	ScopeFeedType = "feed_type" // every feed of one kind
	ScopeFeeds    = "feeds"     // exactly the pinned feeds
)

// Settings are the settings that callers may change.
type Settings struct {
	ExternalID string   `json:"externalId,omitempty"`
	EventTypes []string `json:"eventTypes"`
	ScopeKind  string   `json:"scopeKind"`
	FeedType   string   `json:"feedType,omitempty"`
	Feeds      []Pin    `json:"feeds,omitempty"`
}

// Answered is Settings as answers have them: with all members.
type Answered struct {
	ExternalID *string  `json:"externalId"`
	EventTypes []string `json:"eventTypes"`
	ScopeKind  string   `json:"scopeKind"`
	FeedType   *string  `json:"feedType"`
	Feeds      []Pin    `json:"feeds"`
}

// Words returns the events in words, after "to": everything; news.*, event.item.added of all event feeds.
func (d Settings) Words() string { return d.Answered().Words() }

// Words returns the events in words, as those of Settings.
func (d Answered) Words() string {
	text := strings.Join(d.EventTypes, ", ")
	if text == "*" {
		text = "everything"
	}
	switch {
	case d.FeedType != nil:
		return text + " of all " + *d.FeedType + " feeds"
	case len(d.Feeds) == 1:
		return text + " of 1 feed"
	case len(d.Feeds) > 0:
		return fmt.Sprintf("%s of %d feeds", text, len(d.Feeds))
	}
	return text
}

// Answered returns the settings as answers have them.
func (d Settings) Answered() Answered {
	optional := func(text string) *string {
		if text == "" {
			return nil
		}
		return &text
	}
	return Answered{
		ExternalID: optional(d.ExternalID),
		EventTypes: d.EventTypes,
		ScopeKind:  d.ScopeKind,
		FeedType:   optional(d.FeedType),
		Feeds:      append([]Pin{}, d.Feeds...),
	}
}

// Field is a number of a setting, a bit each.
type Field uint

// All fields.
const (
	FieldExternalID Field = 1 << iota
	FieldEventTypes
	FieldScopeKind
	FieldFeedType
	FieldFeeds

	FieldsAll Field = 1<<iota - 1
)

// Has reports whether a set of fields includes one of others.
func (f Field) Has(other Field) bool { return f&other != 0 }

// Pin names one feed.
type Pin struct {
	FeedType string    `json:"feedType"`
	FeedID   uuid.UUID `json:"feedId"`
}

// Status of a subscription.
type Status string

// An inactive subscription matches nothing until it is activated again.
const (
	StatusNone     Status = "" // it does not exist
	StatusActive   Status = "active"
	StatusInactive Status = "inactive"
	StatusDeleted  Status = "deleted"
)

// State is the state for decisions and for the answer to a write.
type State struct {
	Organization uuid.UUID
	Destination  uuid.UUID
	Status       Status
	Settings     Settings
	Switches     int // number of changes of the status: a decision about an earlier state is void
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// Exists reports whether the subscription exists, active or not.
func (s State) Exists() bool { return s.Status == StatusActive || s.Status == StatusInactive }

func (e Created) evolve(s State) State {
	s.Organization, s.Destination, s.Status, s.Settings = e.Organization, e.Destination, StatusActive, e.Settings
	s.CreatedAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e Revised) evolve(s State) State     { s.Settings, s.UpdatedAt = e.Settings, e.At; return s }
func (e Activated) evolve(s State) State   { return s.switched(StatusActive, e.At) }
func (e Deactivated) evolve(s State) State { return s.switched(StatusInactive, e.At) }
func (e Deleted) evolve(s State) State     { s.Status, s.UpdatedAt = StatusDeleted, e.At; return s }

func (s State) switched(to Status, at time.Time) State {
	s.Status, s.UpdatedAt = to, at
	s.Switches++
	return s
}

// Size returns the number of patterns and distinct pins, which an organization's limit counts.
func (d Settings) Size() int { return len(d.EventTypes) + len(distinct(d.Feeds)) }

// distinct returns pins without repetitions.
func distinct(pins []Pin) []Pin {
	seen := make(map[Pin]struct{}, len(pins))
	return slices.DeleteFunc(slices.Clone(pins), func(pin Pin) bool {
		_, before := seen[pin]
		seen[pin] = struct{}{}
		return before
	})
}

// Equal compares two settings regardless of the order of types and pins.
func (d Settings) Equal(o Settings) bool {
	return d.ExternalID == o.ExternalID && d.ScopeKind == o.ScopeKind && d.FeedType == o.FeedType &&
		sameSet(d.EventTypes, o.EventTypes) && sameSet(d.Feeds, o.Feeds)
}

// With returns the settings with some fields of others. A scope kind without feed type or pins removes the present
// ones, unless they are among the fields, which Validate then refuses.
func (d Settings) With(fields Field, of Settings) Settings {
	take(&d.ExternalID, of.ExternalID, fields.Has(FieldExternalID))
	take(&d.EventTypes, of.EventTypes, fields.Has(FieldEventTypes))
	take(&d.ScopeKind, of.ScopeKind, fields.Has(FieldScopeKind))
	take(&d.FeedType, "", fields.Has(FieldScopeKind) && d.ScopeKind != ScopeFeedType)
	take(&d.Feeds, nil, fields.Has(FieldScopeKind) && d.ScopeKind != ScopeFeeds)
	take(&d.FeedType, of.FeedType, fields.Has(FieldFeedType))
	take(&d.Feeds, of.Feeds, fields.Has(FieldFeeds))
	return d
}

func take[T any](to *T, value T, is bool) {
	if is {
		*to = value
	}
}

func sameSet[T comparable](a, b []T) bool {
	in := func(set []T) func(T) bool { return func(v T) bool { return !slices.Contains(set, v) } }
	return !slices.ContainsFunc(a, in(b)) && !slices.ContainsFunc(b, in(a))
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Created]("subscription.created.v1"),
	eventstore.Case[Event, Revised]("subscription.revised.v1"),
	eventstore.Case[Event, Activated]("subscription.activated.v1"),
	eventstore.Case[Event, Deactivated]("subscription.deactivated.v1"),
	eventstore.Case[Event, Deleted]("subscription.deleted.v1"),
)

// Aggregate binds the functions to the streams "subscription-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "subscription",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
