package destination

import (
	"errors"
	"slices"
	"time"

	"github.com/google/uuid"
)

// Overlap is the time in which rotated secrets sign beside the new one.
const Overlap = 24 * time.Hour

// MaxActiveSecrets limits the secrets that sign at a time.
const MaxActiveSecrets = 10

// Errors of a destination.
var (
	ErrUnknown        = errors.New("destination does not exist")
	ErrTooManySecrets = errors.New("10 secrets are active: wait until the oldest overlapping one expires, or expire one")
	ErrUnknownSecret  = errors.New("secret is not an active one of this destination: " +
		"GET /events/destinations/{ref}/secrets lists those")
	ErrLastSecret   = errors.New("the last secret without an end can't be expired: rotate first")
	ErrNeedsHeaders = errors.New("headers must be sent along when scheme, host or port of the URL change and the " +
		"stored ones can't be read by the caller")
	ErrRevisedSince = errors.New("settings changed since you read them: read again, resend")
)

// Command is an intention; times, new ids and sealed values arrive inside it. Every command names the requesting
// organization, for which another organization's destination does not exist.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Create creates a destination with its first secret. Repeating it changes nothing.
	Create struct {
		Organization uuid.UUID
		Settings     Settings
		SecretID     uuid.UUID
		Secret       []byte // sealed
		Disabled     bool   // initial status
		At           time.Time
	}
	// Revise changes settings, and optionally the status.
	Revise struct {
		Organization uuid.UUID
		Seen         *Settings // Optional. The settings to replace: if they have changed since, nothing changes
		Sets         Field     // the fields that change
		Settings     Settings  // their values
		Enabled      *bool     // Optional
		ReadsHeaders bool      // the caller may read the stored headers, and therefore send them to another host
		At           time.Time
	}
	// SealAddress seals an open address. If that has changed or is sealed already, nothing changes.
	SealAddress struct {
		Open    string // the open address
		URL     string // the masked address
		Address Sealed
		At      time.Time
	}
	// Rotate adds a secret; those without an expiry get the end of the overlap.
	Rotate struct {
		Organization uuid.UUID
		SecretID     uuid.UUID
		Secret       []byte // sealed
		At           time.Time
	}
	// ExpireSecret retires one secret at once.
	ExpireSecret struct {
		Organization uuid.UUID
		SecretID     uuid.UUID
		At           time.Time
	}
	// AutoDisable is the platform's reaction to failures under one status. Once the status has changed it is void, so
	// that a late reaction, or one from a replay of all events, does not revert a decision.
	AutoDisable struct {
		Switches int // of the examined state
		Reason   string
		At       time.Time
	}
	// Delete deletes the destination.
	Delete struct {
		Organization uuid.UUID
		At           time.Time
	}
)

// VisibleTo reports whether the destination exists for an organization.
func (s State) VisibleTo(organization uuid.UUID) bool {
	switch s.statusFor(organization) {
	case StatusEnabled, StatusDisabled, StatusAutoDisabled:
		return true
	case StatusNone, StatusDeleted:
	}
	return false
}

// statusFor returns the status for an organization: another one's destination does not exist.
func (s State) statusFor(organization uuid.UUID) Status {
	if s.Organization != organization {
		return StatusNone
	}
	return s.Status
}

func (c Create) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		events := []Event{
			Created{Organization: c.Organization, Settings: c.Settings, At: c.At},
			SecretMinted{SecretID: c.SecretID, Sealed: c.Secret, At: c.At},
		}
		if c.Disabled {
			events = append(events, Disabled{At: c.At})
		}
		return events, nil
	case StatusEnabled, StatusDisabled, StatusAutoDisabled:
		return nil, nil
	case StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Revise) decide(s State) ([]Event, error) {
	if !s.VisibleTo(c.Organization) {
		return nil, ErrUnknown
	}
	if c.Seen != nil && !c.Seen.Equal(s.Settings) {
		return nil, ErrRevisedSince
	}
	if c.Sets.Has(FieldURL) && !c.Sets.Has(FieldHeaders) && !c.ReadsHeaders && len(s.Settings.Headers.Data) > 0 &&
		!sameOrigin(c.Settings.URL, s.Settings.URL) {
		return nil, ErrNeedsHeaders
	}
	var events []Event
	if set := s.Settings.With(c.Sets, c.Settings); !set.Equal(s.Settings) {
		events = append(events, Revised{Settings: set, At: c.At})
	}
	switch {
	case c.Enabled == nil:
	case *c.Enabled && s.Status != StatusEnabled:
		events = append(events, Enabled{At: c.At})
	case !*c.Enabled && s.Status != StatusDisabled:
		events = append(events, Disabled{At: c.At})
	}
	return events, nil
}

func (c SealAddress) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusEnabled, StatusDisabled, StatusAutoDisabled:
		if s.Settings.URL != c.Open || !s.Settings.Exposed() {
			return nil, nil
		}
		sealed := s.Settings
		sealed.URL, sealed.Address = c.URL, c.Address
		return []Event{Revised{Settings: sealed, At: c.At}}, nil
	case StatusNone, StatusDeleted:
	}
	return nil, ErrUnknown
}

// secretsAt returns the time of a decision about secrets. Callers take the time of their own clock before their turn:
// an earlier decision must not seem to lie ahead, or the last active secret could be expired.
func (s State) secretsAt(asked time.Time) time.Time {
	if asked.Before(s.SecretsAt) {
		return s.SecretsAt
	}
	return asked
}

func (c Rotate) decide(s State) ([]Event, error) {
	if !s.VisibleTo(c.Organization) {
		return nil, ErrUnknown
	}
	at := s.secretsAt(c.At)
	active, never := 0, []uuid.UUID{}
	for _, secret := range s.Secrets {
		switch {
		case secret.ID == c.SecretID:
			return nil, nil
		case secret.ExpiresAt.IsZero():
			never = append(never, secret.ID)
			active++
		case secret.ActiveAt(at):
			active++
		}
	}
	if active >= MaxActiveSecrets {
		return nil, ErrTooManySecrets
	}
	return []Event{SecretRotated{
		SecretID:  c.SecretID,
		Sealed:    c.Secret,
		Expiring:  never,
		ExpiresAt: at.Add(Overlap),
		At:        at,
	}}, nil
}

func (c ExpireSecret) decide(s State) ([]Event, error) {
	if !s.VisibleTo(c.Organization) {
		return nil, ErrUnknown
	}
	at := s.secretsAt(c.At)
	named := func(secret Secret) bool { return secret.ID == c.SecretID && secret.ActiveAt(at) }
	if !slices.ContainsFunc(s.Secrets, named) {
		return nil, ErrUnknownSecret
	}
	stays := func(secret Secret) bool { return secret.ID != c.SecretID && secret.ExpiresAt.IsZero() }
	if !slices.ContainsFunc(s.Secrets, stays) {
		return nil, ErrLastSecret
	}
	return []Event{SecretExpired{SecretID: c.SecretID, At: at}}, nil
}

func (c AutoDisable) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusEnabled:
		if s.Switches != c.Switches {
			return nil, nil
		}
		return []Event{AutoDisabled{Reason: c.Reason, At: c.At}}, nil
	case StatusDisabled, StatusAutoDisabled:
		return nil, nil
	case StatusNone, StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Delete) decide(s State) ([]Event, error) {
	switch s.statusFor(c.Organization) {
	case StatusEnabled, StatusDisabled, StatusAutoDisabled:
		return []Event{Deleted{At: c.At}}, nil
	case StatusDeleted:
		return nil, nil
	case StatusNone:
	}
	return nil, ErrUnknown
}
