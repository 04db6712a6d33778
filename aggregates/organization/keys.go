package organization

import (
	"maps"
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

func (e KeyIssued) evolve(s State) State {
	return s.withKey(e.KeyID, Key{
		Status:    KeyStatusIssued,
		Name:      e.Name,
		Hash:      e.Hash,
		Scopes:    e.Scopes,
		ExpiresAt: orZero(e.ExpiresAt),
	})
}

func (e KeyRotated) evolve(s State) State {
	old := s.Keys[e.Of]
	old.EndsAt = e.EndsAt
	s = s.withKey(e.Of, old)
	return s.withKey(e.KeyID, Key{
		Status:    KeyStatusIssued,
		Name:      e.Name,
		Hash:      e.Hash,
		Scopes:    e.Scopes,
		ExpiresAt: orZero(e.ExpiresAt),
	})
}

func (e KeyRevoked) evolve(s State) State { return s.withKey(e.KeyID, Key{Status: KeyStatusRevoked}) }

func orZero(at *time.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return *at
}

// withKey returns a copy, so that earlier states stay unchanged.
func (s State) withKey(id string, key Key) State {
	keys := make(map[string]Key, len(s.Keys)+1)
	maps.Copy(keys, s.Keys)
	keys[id] = key
	s.Keys = keys
	return s
}

// workingKeys returns the number of valid keys at a time, and of those without a successor. The latter count against
// the limit, so that a rotation is possible at the limit.
func (s State) workingKeys(now time.Time) (all, standing int) {
	for _, key := range s.Keys {
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
	most := s.Limits.Of(LimitKeys)
	all, standing := s.workingKeys(c.At)
	switch {
	case !s.Exists():
		return nil, ErrUnknown
	case s.Keys[c.KeyID].Status != KeyStatusNone:
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
	if s.Keys[c.KeyID].Status != KeyStatusNone {
		return nil, nil
	}
	old := s.Keys[c.Of]
	most := s.Limits.Of(LimitKeys)
	all, standing := s.workingKeys(c.At)
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
	switch s.Keys[c.KeyID].Status {
	case KeyStatusIssued:
		return []Event{KeyRevoked(c)}, nil
	case KeyStatusRevoked:
		return nil, nil
	case KeyStatusNone:
	}
	return nil, ErrUnknownKey
}
