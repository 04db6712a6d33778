// Package feed decides about one feed: its settings, the sources that fill it, and who may read it.
//
//	(none) ──Create──▶ enabled ◀──Revise──▶ disabled        any ──Delete──▶ deleted (final)
//	(none) ──Register──▶ registered: owned elsewhere (news); it can be shared and pinned, not filled
//
//	source: (none) ──AttachSource──▶ attached ──DetachSource──▶ (none)
//	reader: (none) ──Share──▶ shared ──Unshare──▶ (none)
//
// Only the owner changes a feed; those it is shared with read it.
package feed

import (
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Items are collected for event feeds alone. A news feed is kept elsewhere; it is known here so that subscriptions can
// name it.
const (
	TypeEvent = "event"
	TypeNews  = "news"
)

// Who switched a feed on or off.
const (
	BySystem = "system" // as it was created
	ByAdmin  = "admin"
	ByAPI    = "api"
)

// Event is a stored fact about a feed.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Created begins an event feed.
	Created struct {
		Organization uuid.UUID `json:"organization"`
		Settings
		Enabled bool      `json:"enabled"`
		At      time.Time `json:"at"`
	}
	// Registered makes a feed known that another system owns.
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
	// Enabled lets the feed get new items.
	Enabled struct {
		By     string    `json:"by"`
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// Disabled keeps new items out.
	Disabled struct {
		By     string    `json:"by"`
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// SourceAttached lets a source fill the feed.
	SourceAttached struct {
		AssociationID uuid.UUID `json:"associationId"`
		SourceID      uuid.UUID `json:"sourceId"`
		SourceType    string    `json:"sourceType"`
		Known         bool      `json:"known,omitzero"` // what the source shows is known: no walk is waited for
		At            time.Time `json:"at"`
	}
	// SourceDetached ends that.
	SourceDetached struct {
		AssociationID uuid.UUID `json:"associationId"`
		SourceID      uuid.UUID `json:"sourceId"`
		At            time.Time `json:"at"`
	}
	// Shared lets another organization read the feed and get its events.
	Shared struct {
		With uuid.UUID `json:"with"`
		At   time.Time `json:"at"`
	}
	// Unshared ends that.
	Unshared struct {
		With uuid.UUID `json:"with"`
		At   time.Time `json:"at"`
	}
	// Deleted ends the feed, its associations and its items.
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

// A disabled feed gets no new items and can still be read.
const (
	StatusNone     Status = "" // it does not exist
	StatusEnabled  Status = "enabled"
	StatusDisabled Status = "disabled"
	StatusDeleted  Status = "deleted"
)

// State is what decisions and the answers to commands need.
type State struct {
	Organization  uuid.UUID
	FeedType      string
	Status        Status
	Settings      Settings
	EnabledBy     string // who switched it last, on or off
	EnabledReason string
	Associations  []Association // oldest first
	SharedWith    []uuid.UUID
	CreatedAt     time.Time
	UpdatedAt     time.Time
}

// Settings are what the owner may change.
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

// Readers lists the organizations that may read the feed, its owner first; none where it does not exist.
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

// Association finds an association by its id.
func (s State) Association(id uuid.UUID) (Association, bool) {
	for _, a := range s.Associations {
		if a.ID == id {
			return a, true
		}
	}
	return Association{}, false
}

// SourceAssociation finds the association of a source.
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

// Events names each fact as stored. Never rename; add ".v2" and upcast.
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

// Aggregate binds it all to the streams "feed-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "feed",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
