package organization

import (
	"errors"
	"time"
)

// What an organization refuses.
var (
	ErrUnknown    = errors.New("organization does not exist")
	ErrUnknownKey = errors.New("organization has no such key")
	ErrExpired    = errors.New("the key would be expired from the start")
)

// Command is an intention; times, ids and digests arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Register begins an organization. Registering one that exists changes nothing.
	Register struct {
		Name string
		At   time.Time
	}
	// IssueKey adds a key. Issuing the same key id again changes nothing.
	IssueKey struct {
		KeyID     string
		Name      string
		Hash      []byte
		ExpiresAt *time.Time // nil: never
		At        time.Time
	}
	// RevokeKey ends a key at once.
	RevokeKey struct {
		KeyID string
		At    time.Time
	}
)

func (c Register) decide(s State) ([]Event, error) {
	if s.Registered {
		return nil, nil
	}
	return []Event{Registered(c)}, nil
}

func (c IssueKey) decide(s State) ([]Event, error) {
	switch {
	case !s.Registered:
		return nil, ErrUnknown
	case s.Keys[c.KeyID] != KeyStatusNone:
		return nil, nil
	case c.ExpiresAt != nil && !c.At.Before(*c.ExpiresAt):
		return nil, ErrExpired
	}
	return []Event{KeyIssued(c)}, nil
}

func (c RevokeKey) decide(s State) ([]Event, error) {
	if !s.Registered {
		return nil, ErrUnknown
	}
	switch s.Keys[c.KeyID] {
	case KeyStatusIssued:
		return []Event{KeyRevoked(c)}, nil
	case KeyStatusRevoked:
		return nil, nil
	case KeyStatusNone:
	}
	return nil, ErrUnknownKey
}
