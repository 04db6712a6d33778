// Package auditor implements the aggregate of a token with which an auditor reads the audit trail and nothing else.
//
//	(none) ──Issue──▶ issued ──Revoke, or its expiry──▶ dead (final)
//
// Each token is a separate aggregate, in the stream that StreamID derives from its public part. The aggregate knows
// only the digest of its secret. See Token.
package auditor

import (
	"bytes"
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about an auditor's token.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// TokenIssued permits its bearer to read the audit trail.
	TokenIssued struct {
		TokenID      string     `json:"tokenId"`               // the public part of the token
		Name         string     `json:"name"`                  // of the auditor
		Organization uuid.UUID  `json:"organization,omitzero"` // the organization whose trail it reads; absent: all
		Hash         []byte     `json:"hash"`                  // see Token.Hash
		ExpiresAt    *time.Time `json:"expiresAt,omitempty"`
		At           time.Time  `json:"at"`
	}
	// TokenRevoked ends a token before its time.
	TokenRevoked struct {
		TokenID string    `json:"tokenId"`
		At      time.Time `json:"at"`
	}
)

// Status is the status of a token. Expiry depends on the time and is not part of it.
type Status string

// A revoked token stays revoked.
const (
	StatusNone    Status = "" // it was never issued
	StatusIssued  Status = "issued"
	StatusRevoked Status = "revoked"
)

// State is the state for decisions.
type State struct {
	Status       Status
	TokenID      string
	Name         string
	Organization uuid.UUID // zero: all
	Hash         []byte
	ExpiresAt    *time.Time // nil means never
}

func (e TokenIssued) evolve(State) State {
	return State{
		Status:       StatusIssued,
		TokenID:      e.TokenID,
		Name:         e.Name,
		Organization: e.Organization,
		Hash:         e.Hash,
		ExpiresAt:    e.ExpiresAt,
	}
}

func (TokenRevoked) evolve(s State) State { s.Status = StatusRevoked; return s }

// Errors of an auditor's token.
var (
	ErrUnknown = errors.New("no such token was issued")
	ErrTaken   = errors.New("another token has this id")
	ErrExpired = errors.New("the token would be expired from the start")
)

// Command is an intention; times, ids and digests arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Issue makes a token valid. Repeating it changes nothing.
	Issue struct {
		TokenID      string
		Name         string
		Organization uuid.UUID // zero: of all organizations
		Hash         []byte
		ExpiresAt    *time.Time // nil means no expiry
		At           time.Time
	}
	// Revoke ends the token at once.
	Revoke struct{ At time.Time }
)

func (c Issue) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		if c.ExpiresAt != nil && !c.At.Before(*c.ExpiresAt) {
			return nil, ErrExpired
		}
		return []Event{TokenIssued(c)}, nil
	case StatusIssued, StatusRevoked:
		if bytes.Equal(s.Hash, c.Hash) {
			return nil, nil
		}
	}
	return nil, ErrTaken
}

func (c Revoke) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusIssued:
		return []Event{TokenRevoked{TokenID: s.TokenID, At: c.At}}, nil
	case StatusRevoked:
		return nil, nil
	case StatusNone:
	}
	return nil, ErrUnknown
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, TokenIssued]("auditor.token-issued.v1"),
	eventstore.Case[Event, TokenRevoked]("auditor.token-revoked.v1"),
)

// Aggregate binds the functions to the streams "auditor-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "auditor",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// tokens is the name space of StreamID.
var tokens = uuid.MustParse("5b1f8a0e-6d0a-4d0c-9a55-1f0c5d1f6a11")

// StreamID derives the id of a token's stream from its public part, so that two tokens can't share one.
func StreamID(tokenID string) uuid.UUID { return uuid.NewSHA1(tokens, []byte(tokenID)) }
