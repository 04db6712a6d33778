// Package feed implements the aggregate of one feed: its settings, the sources that fill it, and its readers.
//
//	(none) ──Create──▶ enabled ◀──Revise──▶ disabled        any ──Delete──▶ deleted (final)
//	(none) ──Register──▶ registered: owned elsewhere (news); it can be shared and pinned, not filled
//
//	source: (none) ──AttachSource──▶ attached ──DetachSource──▶ (none)
//	reader: (none) ──Share──▶ shared ──Unshare──▶ (none)
//
// Only the owner changes a feed; the organizations that it is shared with read it.
package feed

import (
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Types of feeds. Items are collected for event feeds only. News feeds belong to another system, and are known here
// for subscriptions.
const (
	TypeEvent = "event"
	TypeNews  = "news"
)

// Actors that enable or disable a feed.
const (
	BySystem = "system" // at its creation
	ByAdmin  = "admin"
	ByAPI    = "api"
)

// Event is a stored fact about a feed.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Created creates an event feed.
	Created struct {
		Organization uuid.UUID `json:"organization"`
		Settings
		Enabled bool      `json:"enabled"`
		At      time.Time `json:"at"`
	}
	// Registered makes a feed of another system known.
	Registered struct {
		Organization uuid.UUID `json:"organization"`
		FeedType     string    `json:"feedType"`
		Name         string    `json:"name"`
		At           time.Time `json:"at"`
	}
	// Revised replaces all settings.
	Revised struct {
		Settings
		At time.Time `json:"at"`
	}
	// Enabled enables new items.
	Enabled struct {
		By     string    `json:"by"`
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// Disabled disables new items.
	Disabled struct {
		By     string    `json:"by"`
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// SourceAttached attaches a source that fills the feed.
	SourceAttached struct {
		AssociationID uuid.UUID `json:"associationId"`
		SourceID      uuid.UUID `json:"sourceId"`
		SourceType    string    `json:"sourceType"`
		Known         bool      `json:"known,omitzero"` // the source's happenings are known: no walk is awaited
		At            time.Time `json:"at"`
	}
	// SourceDetached detaches it.
	SourceDetached struct {
		AssociationID uuid.UUID `json:"associationId"`
		SourceID      uuid.UUID `json:"sourceId"`
		At            time.Time `json:"at"`
	}
	// Shared permits another organization to read the feed and get its events.
	Shared struct {
		With uuid.UUID `json:"with"`
		At   time.Time `json:"at"`
	}
	// Unshared revokes that.
	Unshared struct {
		With uuid.UUID `json:"with"`
		At   time.Time `json:"at"`
	}
	// Deleted deletes the feed with its associations and items.
	Deleted struct {
		At time.Time `json:"at"`
	}
)

// Config is the feed's configuration.
type Config struct {
	Version float64 `json:"version"`
}

// Status of a feed.
type Status string

// A disabled feed gets no new items, but stays readable.
const (
	StatusNone     Status = "" // it does not exist
	StatusEnabled  Status = "enabled"
	StatusDisabled Status = "disabled"
	StatusDeleted  Status = "deleted"
)

// State is the state for decisions and for the answers to commands.
type State struct {
	Organization  uuid.UUID
	FeedType      string
	Status        Status
	Settings      Settings
	EnabledBy     string // actor of the last change of the status
	EnabledReason string
	Associations  []Association // oldest first
	SharedWith    []uuid.UUID
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Settings are the settings that the owner may change.
type Settings struct {
	Name        string `json:"name"`
	Description string `json:"description"`
	Config      Config `json:"config"`
}

// Association is a source attached to the feed.
type Association struct {
	ID         uuid.UUID
	SourceID   uuid.UUID
	SourceType string
	At         time.Time
}

// VisibleTo reports whether an organization may read the feed.
func (s State) VisibleTo(organization uuid.UUID) bool {
	return s.exists() && (s.Organization == organization || s.sharedWith(organization))
}

// Readers returns the organizations that may read the feed, its owner first; none if it does not exist.
func (s State) Readers() []uuid.UUID {
	if !s.exists() {
		return nil
	}
	return append([]uuid.UUID{s.Organization}, s.SharedWith...)
}

func (s State) exists() bool {
	switch s.Status {
	case StatusEnabled, StatusDisabled:
		return true
	case StatusNone, StatusDeleted:
	}
	return false
}

// Association returns an association by its id.
func (s State) Association(id uuid.UUID) (Association, bool) {
	for _, a := range s.Associations {
		if a.ID == id {
			return a, true
		}
	}
	return Association{}, false
}

// SourceAssociation returns the association of a source.
func (s State) SourceAssociation(source uuid.UUID) (Association, bool) {
	for _, a := range s.Associations {
		if a.SourceID == source {
			return a, true
		}
	}
	return Association{}, false
}

func (s State) sharedWith(organization uuid.UUID) bool {
	for _, reader := range s.SharedWith {
		if reader == organization {
			return true
		}
	}
	return false
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Created]("feed.created.v1"),
	eventstore.Case[Event, Registered]("feed.registered.v1"),
	eventstore.Case[Event, Revised]("feed.revised.v1"),
	eventstore.Case[Event, Enabled]("feed.enabled.v1"),
	eventstore.Case[Event, Disabled]("feed.disabled.v1"),
	eventstore.Case[Event, SourceAttached]("feed.source-attached.v1"),
	eventstore.Case[Event, SourceDetached]("feed.source-detached.v1"),
	eventstore.Case[Event, Shared]("feed.shared.v1"),
	eventstore.Case[Event, Unshared]("feed.unshared.v1"),
	eventstore.Case[Event, Deleted]("feed.deleted.v1"),
)

// Aggregate binds the functions to the streams "feed-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "feed",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
