// Package organization implements the aggregate of one organization with the API keys for its data.
//
//	(none) ──Register──▶ registered ◀──Suspend, Resume──▶ suspended      either ──Delete──▶ deleted (final)
//	key: (none) ──IssueKey, RotateKey──▶ issued ──RevokeKey, its expiry, or some time after RotateKey──▶ dead (final)
//
// The aggregate knows only the digest of a key's secret. See Key.
package organization

import (
	"time"

	"carillon/eventstore"
)

// Event is a stored fact about an organization.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Registered creates an organization.
	Registered struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	}
	// KeyIssued adds a key.
	KeyIssued struct {
		KeyID     string     `json:"keyId"` // the public part of the key
		Name      string     `json:"name,omitempty"`
		Hash      []byte     `json:"hash"` // see Key.Hash
		Scopes    []Scope    `json:"scopes"`
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
		At        time.Time  `json:"at"`
	}
	// KeyRotated adds a key with the rights of another one, which ends at EndsAt.
	KeyRotated struct {
		KeyID     string     `json:"keyId"`
		Of        string     `json:"of"` // the key that ends
		Name      string     `json:"name,omitempty"`
		Hash      []byte     `json:"hash"`
		Scopes    []Scope    `json:"scopes"`
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
		EndsAt    time.Time  `json:"endsAt"`
		At        time.Time  `json:"at"`
	}
	// KeyRevoked ends a key before its time.
	KeyRevoked struct {
		KeyID string    `json:"keyId"`
		At    time.Time `json:"at"`
	}
	// LimitsSet replaces all limits of the organization.
	LimitsSet struct {
		Limits Limits    `json:"limits"`
		At     time.Time `json:"at"`
	}
	// Suspended disables all keys and deliveries, until Resumed.
	Suspended struct {
		Reason string    `json:"reason,omitempty"`
		At     time.Time `json:"at"`
	}
	// Resumed ends a suspension: keys work, and pending deliveries continue.
	Resumed struct {
		At time.Time `json:"at"`
	}
	// Deleted deletes the organization permanently; its things are deleted after it.
	Deleted struct {
		At time.Time `json:"at"`
	}
)

// Status of an organization.
type Status string

// A deleted organization stays deleted.
const (
	StatusNone       Status = "" // it does not exist
	StatusRegistered Status = "registered"
	StatusSuspended  Status = "suspended"
	StatusDeleted    Status = "deleted"
)

// State is the state for decisions.
type State struct {
	Status  Status
	Limits  Limits
	changes *keyChanges // see Keys; nil if there are none
}

func (Registered) evolve(s State) State  { s.Status = StatusRegistered; return s }
func (e LimitsSet) evolve(s State) State { s.Limits = e.Limits; return s }
func (Suspended) evolve(s State) State   { s.Status = StatusSuspended; return s }
func (Resumed) evolve(s State) State     { s.Status = StatusRegistered; return s }
func (Deleted) evolve(s State) State     { s.Status, s.changes = StatusDeleted, nil; return s }

// Exists reports whether the organization was registered and not deleted.
func (s State) Exists() bool { return s.Status == StatusRegistered || s.Status == StatusSuspended }

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Registered]("organization.registered.v1"),
	eventstore.Upcast[Event, keyIssuedV1]("organization.key-issued.v1", keyIssuedV1.upcast),
	eventstore.Case[Event, KeyIssued]("organization.key-issued.v2"),
	eventstore.Case[Event, KeyRotated]("organization.key-rotated.v1"),
	eventstore.Case[Event, KeyRevoked]("organization.key-revoked.v1"),
	eventstore.Case[Event, LimitsSet]("organization.limits-set.v1"),
	eventstore.Case[Event, Suspended]("organization.suspended.v1"),
	eventstore.Case[Event, Resumed]("organization.resumed.v1"),
	eventstore.Case[Event, Deleted]("organization.deleted.v1"),
)

// Aggregate binds the functions to the streams "organization-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "organization",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
