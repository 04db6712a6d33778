package organization

import (
	"slices"
	"time"
)

// Scope is a permission of a key.
type Scope string

// Scopes of keys. None includes another.
const (
	ScopeRead    Scope = "read"
	ScopeWrite   Scope = "write"
	ScopeSecrets Scope = "secrets" // to read secrets in full
)

// AllScopes returns the default scopes of a key.
func AllScopes() []Scope { return []Scope{ScopeRead, ScopeWrite, ScopeSecrets} }

// KeyStatus is the status of a key. Expiry depends on the time and is not part of it.
type KeyStatus string

// A revoked key stays revoked.
const (
	KeyStatusNone    KeyStatus = "" // it was never issued
	KeyStatusIssued  KeyStatus = "issued"
	KeyStatusRevoked KeyStatus = "revoked"
)

// Key is an API key. Zero times mean never.
type Key struct {
	Status    KeyStatus
	Name      string
	Hash      []byte // see KeyIssued.Hash
	Scopes    []Scope
	ExpiresAt time.Time
	EndsAt    time.Time // of the overlap with its successor
}

// WorksAt reports whether the key is valid at a time.
func (k Key) WorksAt(now time.Time) bool {
	end := k.End()
	return k.Status == KeyStatusIssued && (end.IsZero() || now.Before(end))
}

// End returns the end of the key by its expiry or its overlap, zero for never.
func (k Key) End() time.Time {
	if k.EndsAt.IsZero() || !k.ExpiresAt.IsZero() && k.ExpiresAt.Before(k.EndsAt) {
		return k.ExpiresAt
	}
	return k.EndsAt
}

// keyIssuedV1 is KeyIssued before scopes: such keys have all.
type keyIssuedV1 struct {
	KeyID     string     `json:"keyId"`
	Name      string     `json:"name,omitempty"`
	Hash      []byte     `json:"hash"`
	ExpiresAt *time.Time `json:"expiresAt,omitempty"`
	At        time.Time  `json:"at"`
}

func (e keyIssuedV1) upcast() Event {
	return KeyIssued{
		KeyID:     e.KeyID,
		Name:      e.Name,
		Hash:      e.Hash,
		Scopes:    AllScopes(),
		ExpiresAt: e.ExpiresAt,
		At:        e.At,
	}
}

// keyEvent is an event that changes keys.
type keyEvent interface{ change(keys map[string]Key) }

// keyChanges are the events that changed keys, the last one with those before it. Earlier states share them.
type keyChanges struct {
	last   keyEvent
	before *keyChanges
}

func (s State) changed(e keyEvent) State {
	s.changes = &keyChanges{last: e, before: s.changes}
	return s
}

// Keys returns the keys by their ids. It folds what changed them: call it once for many keys.
func (s State) Keys() map[string]Key {
	var events []keyEvent
	for c := s.changes; c != nil; c = c.before {
		events = append(events, c.last)
	}
	keys := make(map[string]Key, len(events))
	for _, e := range slices.Backward(events) {
		e.change(keys)
	}
	return keys
}

func (e KeyIssued) evolve(s State) State  { return s.changed(e) }
func (e KeyRotated) evolve(s State) State { return s.changed(e) }
func (e KeyRevoked) evolve(s State) State { return s.changed(e) }

func (e KeyIssued) change(keys map[string]Key) {
	keys[e.KeyID] = Key{
		Status:    KeyStatusIssued,
		Name:      e.Name,
		Hash:      e.Hash,
		Scopes:    e.Scopes,
		ExpiresAt: orZero(e.ExpiresAt),
	}
}

func (e KeyRotated) change(keys map[string]Key) {
	old := keys[e.Of]
	old.EndsAt = e.EndsAt
	keys[e.Of] = old
	keys[e.KeyID] = Key{
		Status:    KeyStatusIssued,
		Name:      e.Name,
		Hash:      e.Hash,
		Scopes:    e.Scopes,
		ExpiresAt: orZero(e.ExpiresAt),
	}
}

func (e KeyRevoked) change(keys map[string]Key) { keys[e.KeyID] = Key{Status: KeyStatusRevoked} }

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// workingKeys returns the number of valid keys at a time, and of those without a successor. The latter count against
// the limit, so that a rotation is possible at the limit.
func workingKeys(keys map[string]Key, now time.Time) (all, standing int) {
	for _, key := range keys {
		if key.WorksAt(now) {
			all++
			if key.EndsAt.IsZero() {
				standing++
			}
		}
	}
	return all, standing
}

func (c IssueKey) decide(s State) ([]Event, error) {
	keys, most := s.Keys(), s.Limits.Of(LimitKeys)
	all, standing := workingKeys(keys, c.At)
	switch {
	case !s.Exists():
		return nil, ErrUnknown
	case keys[c.KeyID].Status != KeyStatusNone:
		return nil, nil
	case c.ExpiresAt != nil && !c.At.Before(*c.ExpiresAt):
		return nil, ErrExpired
	case !ValidScopes(c.Scopes):
		return nil, ErrBadScopes
	case standing >= most, all >= 2*most:
		return nil, &LimitError{Limit: LimitKeys, Most: most}
	}
	return []Event{KeyIssued(c)}, nil
}

// ValidScopes reports whether scopes are known, each once, and at least one.
func ValidScopes(scopes []Scope) bool {
	for i, scope := range scopes {
		if !slices.Contains(AllScopes(), scope) || slices.Contains(scopes[:i], scope) {
			return false
		}
	}
	return len(scopes) > 0
}

func (c RotateKey) decide(s State) ([]Event, error) {
	if !s.Exists() {
		return nil, ErrUnknown
	}
	keys := s.Keys()
	if keys[c.KeyID].Status != KeyStatusNone {
		return nil, nil
	}
	old := keys[c.Of]
	most := s.Limits.Of(LimitKeys)
	all, standing := workingKeys(keys, c.At)
	if old.EndsAt.IsZero() {
		standing-- // its successor replaces it
	}
	switch {
	case !old.WorksAt(c.At):
		return nil, ErrUnknownKey
	case standing >= most, all >= 2*most && c.Overlap > 0:
		return nil, &LimitError{Limit: LimitKeys, Most: most}
	}
	ends := c.At.Add(c.Overlap)
	if !old.EndsAt.IsZero() && old.EndsAt.Before(ends) {
		ends = old.EndsAt // a second rotation does not extend the key
	}
	rotated := KeyRotated{
		KeyID:  c.KeyID,
		Of:     c.Of,
		Name:   old.Name,
		Hash:   c.Hash,
		Scopes: old.Scopes,
		EndsAt: ends,
		At:     c.At,
	}
	if end := old.End(); !end.IsZero() {
		rotated.ExpiresAt = &end
	}
	return []Event{rotated}, nil
}

func (c RevokeKey) decide(s State) ([]Event, error) {
	if !s.Exists() {
		return nil, ErrUnknown
	}
	switch s.Keys()[c.KeyID].Status {
	case KeyStatusIssued:
		return []Event{KeyRevoked(c)}, nil
	case KeyStatusRevoked:
		return nil, nil
	case KeyStatusNone:
	}
	return nil, ErrUnknownKey
}
