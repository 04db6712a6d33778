package operator

import (
	"bytes"
	"errors"
	"time"
)

// MaxValidTokens limits the valid tokens of one operator.
const MaxValidTokens = 10

// Errors of an operator.
var (
	ErrUnknown       = errors.New("no such operator")
	ErrTaken         = errors.New("an operator has this name: rotate the token, or revoke the operator first")
	ErrExpired       = errors.New("the token would be expired from the start")
	ErrLapsed        = errors.New("the operator's token has expired: revoke the operator, and issue another token")
	ErrTooManyTokens = errors.New("10 tokens of the operator are valid: wait until the oldest ends, or revoke the " +
		"operator")
)

// Command is an intention; times, ids and digests arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Issue admits an operator with a token. Repeating it changes nothing.
	Issue struct {
		Name      string
		TokenID   string
		Hash      []byte
		ExpiresAt *time.Time // nil means no expiry
		At        time.Time
	}
	// Rotate adds a token with the expiry of the newest one. The valid ones end after the overlap.
	Rotate struct {
		TokenID string
		Hash    []byte
		Overlap time.Duration // at least 0, which ends them at once
		At      time.Time
	}
	// Revoke ends all tokens at once.
	Revoke struct{ At time.Time }
	// Act records an action without another event, in a new stream.
	Act struct {
		Action, Subject string
		At              time.Time
	}
)

func (c Issue) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone, StatusRevoked:
		if c.ExpiresAt != nil && !c.At.Before(*c.ExpiresAt) {
			return nil, ErrExpired
		}
		return []Event{TokenIssued(c)}, nil
	case StatusAdmitted:
		if s.has(c.TokenID, c.Hash) {
			return nil, nil
		}
	}
	return nil, ErrTaken
}

func (s State) has(id string, hash []byte) bool {
	for _, t := range s.Tokens {
		if t.ID == id && bytes.Equal(t.Hash, hash) {
			return true
		}
	}
	return false
}

func (c Rotate) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusAdmitted:
	case StatusNone, StatusRevoked:
		return nil, ErrUnknown
	}
	if s.has(c.TokenID, c.Hash) {
		return nil, nil
	}
	newest, valid, ending := s.Tokens[len(s.Tokens)-1], 0, []string{}
	for _, t := range s.Tokens {
		if !t.ValidAt(c.At) {
			continue
		}
		valid++
		if t.EndsAt.IsZero() || c.At.Add(c.Overlap).Before(t.EndsAt) {
			ending = append(ending, t.ID)
		}
	}
	rotated := TokenRotated{
		Name:    s.Name,
		TokenID: c.TokenID,
		Hash:    c.Hash,
		Ending:  ending,
		EndsAt:  c.At.Add(c.Overlap),
		At:      c.At,
	}
	switch {
	case !newest.ValidAt(c.At):
		return nil, ErrLapsed
	case valid >= MaxValidTokens && c.Overlap > 0:
		return nil, ErrTooManyTokens
	case !newest.ExpiresAt.IsZero():
		rotated.ExpiresAt = &newest.ExpiresAt
	}
	return []Event{rotated}, nil
}

func (c Revoke) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusAdmitted:
		return []Event{Revoked{Name: s.Name, At: c.At}}, nil
	case StatusRevoked:
		return nil, nil
	case StatusNone:
	}
	return nil, ErrUnknown
}

func (c Act) decide(State) ([]Event, error) { return []Event{Acted(c)}, nil }
