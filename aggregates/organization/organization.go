// Package organization decides about one organization and the API keys that open its data.
//
//	(none) ──Register──▶ registered
//	key: (none) ──IssueKey──▶ issued ──RevokeKey, or its expiry──▶ dead (final)
//
// A key's secret never gets here: the aggregate knows its digest only. See Key.
package organization

import (
	"maps"
	"time"

	"carillon/eventstore"
)

// Event is a stored fact about an organization.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Registered begins an organization.
	Registered struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	}
	// KeyIssued adds a key.
	KeyIssued struct {
		KeyID     string     `json:"keyId"` // the public part of the key
		Name      string     `json:"name,omitempty"`
		Hash      []byte     `json:"hash"` // see Key.Hash
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
		At        time.Time  `json:"at"`
	}
	// KeyRevoked ends a key before its time.
	KeyRevoked struct {
		KeyID string    `json:"keyId"`
		At    time.Time `json:"at"`
	}
)

// KeyStatus is what became of a key. That it has expired is told by the clock, which decisions don't know.
type KeyStatus string

// A key that was revoked stays so.
const (
	KeyStatusNone    KeyStatus = "" // it was never issued
	KeyStatusIssued  KeyStatus = "issued"
	KeyStatusRevoked KeyStatus = "revoked"
)

// State is what decisions need.
type State struct {
	Registered bool
	Keys       map[string]KeyStatus // by id
}

func (Registered) evolve(s State) State   { s.Registered = true; return s }
func (e KeyIssued) evolve(s State) State  { return s.withKey(e.KeyID, KeyStatusIssued) }
func (e KeyRevoked) evolve(s State) State { return s.withKey(e.KeyID, KeyStatusRevoked) }

// withKey copies: earlier states stay as they were.
func (s State) withKey(id string, status KeyStatus) State {
	keys := make(map[string]KeyStatus, len(s.Keys)+1)
	maps.Copy(keys, s.Keys)
	keys[id] = status
	s.Keys = keys
	return s
}

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Registered]("organization.registered.v1"),
	eventstore.Case[Event, KeyIssued]("organization.key-issued.v1"),
	eventstore.Case[Event, KeyRevoked]("organization.key-revoked.v1"),
)

// Aggregate binds it all to the streams "organization-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "organization",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
