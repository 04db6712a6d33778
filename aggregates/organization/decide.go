package organization

import (
	"errors"
	"maps"
	"time"
)

// Errors of an organization.
var (
	ErrUnknown    = errors.New("organization does not exist")
	ErrUnknownKey = errors.New("organization has no such key")
	ErrExpired    = errors.New("the key would be expired from the start")
	ErrBadScopes  = errors.New("scopes are some of read, write and secrets, each once")
	ErrBadLimit   = errors.New("a limit is unknown or out of range")
)

// Command is an intention; times, ids and digests arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Register creates an organization. Repeating it changes nothing.
	Register struct {
		Name string
		At   time.Time
	}
	// IssueKey adds a key. Repeating it with the same key id changes nothing.
	IssueKey struct {
		KeyID     string
		Name      string
		Hash      []byte
		Scopes    []Scope
		ExpiresAt *time.Time // nil means no expiry
		At        time.Time
	}
	// RotateKey adds a key with the name, scopes and expiry of another one, which ends after the overlap. The successor
	// of a key in its overlap ends with that overlap.
	RotateKey struct {
		KeyID   string // the new one
		Of      string
		Hash    []byte
		Overlap time.Duration // at least 0, which ends it at once
		At      time.Time
	}
	// RevokeKey ends a key at once.
	RevokeKey struct {
		KeyID string
		At    time.Time
	}
	// SetLimits replaces all limits; missing ones are as in Defaults. Existing things above a limit stay.
	SetLimits struct {
		Limits Limits
		At     time.Time
	}
	// Suspend disables all keys. Repeating it changes nothing.
	Suspend struct {
		Reason string
		At     time.Time
	}
	// Resume ends a suspension.
	Resume struct{ At time.Time }
	// Delete deletes the organization permanently. Repeating it changes nothing.
	Delete struct{ At time.Time }
)

func (c Register) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		return []Event{Registered(c)}, nil
	case StatusRegistered, StatusSuspended:
		return nil, nil
	case StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c SetLimits) decide(s State) ([]Event, error) {
	switch {
	case !s.Exists():
		return nil, ErrUnknown
	case maps.Equal(c.Limits, s.Limits):
		return nil, nil
	}
	known := Defaults()
	for limit, most := range c.Limits {
		if _, ok := known[limit]; !ok || most < 0 || most > MaxLimit {
			return nil, ErrBadLimit
		}
	}
	return []Event{LimitsSet(c)}, nil
}

func (c Suspend) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusRegistered:
		return []Event{Suspended(c)}, nil
	case StatusSuspended:
		return nil, nil
	case StatusNone, StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Resume) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusSuspended:
		return []Event{Resumed(c)}, nil
	case StatusRegistered:
		return nil, nil
	case StatusNone, StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Delete) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusRegistered, StatusSuspended:
		return []Event{Deleted(c)}, nil
	case StatusDeleted:
		return nil, nil
	case StatusNone:
	}
	return nil, ErrUnknown
}
