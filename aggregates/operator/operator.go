// Package operator implements the aggregate of one named operator with the tokens for the admin API.
//
//	(none) ──Issue──▶ admitted ──Revoke──▶ revoked ──Issue──▶ admitted …
//	token: (none) ──Issue, Rotate──▶ valid ──Rotate──▶ overlapping ──time──▶ dead      any ──Revoke, its expiry──▶ dead
//
// The stream of an operator is derived from the name, so that names are unique. The aggregate knows only the digest of
// a token's secret. An action of an operator without another event (Acted) has a separate stream.
package operator

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about an operator.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// TokenIssued admits an operator, maybe again.
	TokenIssued struct {
		Name      string     `json:"name"`
		TokenID   string     `json:"tokenId"` // the public part of the token
		Hash      []byte     `json:"hash"`    // see Token.Hash
		ExpiresAt *time.Time `json:"expiresAt,omitempty"`
		At        time.Time  `json:"at"`
	}
	// TokenRotated adds a token, and ends the others.
	TokenRotated struct {
		Name      string     `json:"name"`
		TokenID   string     `json:"tokenId"`
		Hash      []byte     `json:"hash"`
		ExpiresAt *time.Time `json:"expiresAt,omitempty"` // of the one before
		Ending    []string   `json:"ending"`              // the tokens that end at EndsAt
		EndsAt    time.Time  `json:"endsAt"`
		At        time.Time  `json:"at"`
	}
	// Revoked ends all tokens of the operator at once.
	Revoked struct {
		Name string    `json:"name"`
		At   time.Time `json:"at"`
	}
	// Acted records an operator's action that has no other event. The metadata names the operator.
	Acted struct {
		Action  string    `json:"action"`            // such as "rebuild-projection"
		Subject string    `json:"subject,omitempty"` // object of the action
		At      time.Time `json:"at"`
	}
)

// Status of an operator.
type Status string

// A revoked operator can be admitted again.
const (
	StatusNone     Status = "" // the name is free
	StatusAdmitted Status = "admitted"
	StatusRevoked  Status = "revoked"
)

// Token is a token that was not revoked. Zero times mean never.
type Token struct {
	ID        string
	Hash      []byte
	ExpiresAt time.Time
	EndsAt    time.Time // of the overlap with its successor
}

// ValidAt reports whether the token is valid at a time.
func (t Token) ValidAt(now time.Time) bool { return t.End().IsZero() || now.Before(t.End()) }

// End returns the end of the token by its expiry or its overlap, zero for never.
func (t Token) End() time.Time {
	if t.EndsAt.IsZero() || !t.ExpiresAt.IsZero() && t.ExpiresAt.Before(t.EndsAt) {
		return t.ExpiresAt
	}
	return t.EndsAt
}

// State is the state for decisions.
type State struct {
	Status Status
	Name   string
	Tokens []Token // oldest first
}

func (e TokenIssued) evolve(s State) State {
	s.Status, s.Name, s.Tokens = StatusAdmitted, e.Name, []Token{token(e.TokenID, e.Hash, e.ExpiresAt)}
	return s
}

func (e TokenRotated) evolve(s State) State {
	tokens := make([]Token, 0, len(s.Tokens)+1) // earlier states stay unchanged
	for _, t := range s.Tokens {
		if slices.Contains(e.Ending, t.ID) {
			t.EndsAt = e.EndsAt
		}
		tokens = append(tokens, t)
	}
	tokens = append(tokens, token(e.TokenID, e.Hash, e.ExpiresAt))
	s.Tokens = tokens
	return s
}

func (Revoked) evolve(s State) State { s.Status, s.Tokens = StatusRevoked, nil; return s }
func (Acted) evolve(s State) State   { return s }

func token(id string, hash []byte, expires *time.Time) Token {
	t := Token{ID: id, Hash: hash}
	if expires != nil {
		t.ExpiresAt = *expires
	}
	return t
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, TokenIssued]("operator.token-issued.v1"),
	eventstore.Case[Event, TokenRotated]("operator.token-rotated.v1"),
	eventstore.Case[Event, Revoked]("operator.revoked.v1"),
	eventstore.Case[Event, Acted]("operator.acted.v1"),
)

// Aggregate binds the functions to the streams "operator-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "operator",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// names is the name space of StreamID.
var names = uuid.MustParse("8f8f2f0a-53a6-4f0e-8a5e-5b1a9d7f3c42")

// StreamID derives the id of an operator's stream from the name.
func StreamID(name string) uuid.UUID { return uuid.NewSHA1(names, []byte(name)) }
