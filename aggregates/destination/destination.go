// Package destination implements the aggregate of one webhook destination.
//
//	(none) ──Create──▶ enabled ──Disable──────▶ disabled ───────┐
//	                    ▲  └──AutoDisable──▶ auto_disabled ──┐  │
//	                    └────────────────Enable──────────────┴──┘      any ──Delete──▶ deleted (final)
//
//	secret: minted (never expires) ──Rotate──▶ expiring (24 h overlap) ──time or ExpireSecret──▶ expired
//
// Secrets, custom headers and the secret part of an address are here in sealed form only: the aggregate never opens
// them.
package destination

import (
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// Event is a stored fact about a destination.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Created creates a destination, which is enabled.
	Created struct {
		Organization uuid.UUID `json:"organization"`
		Settings
		At time.Time `json:"at"`
	}
	// Revised replaces all settings.
	Revised struct {
		Settings
		At time.Time `json:"at"`
	}
	// SecretMinted adds the first secret.
	SecretMinted struct {
		SecretID uuid.UUID `json:"secretId"`
		Sealed   []byte    `json:"sealed"`
		At       time.Time `json:"at"`
	}
	// SecretRotated adds a secret without an expiry, and sets that of the others without one.
	SecretRotated struct {
		SecretID  uuid.UUID   `json:"secretId"`
		Sealed    []byte      `json:"sealed"`
		Expiring  []uuid.UUID `json:"expiring"`  // secrets that get ExpiresAt
		ExpiresAt time.Time   `json:"expiresAt"` // end of the overlap
		At        time.Time   `json:"at"`
	}
	// SecretExpired retires a secret at once.
	SecretExpired struct {
		SecretID uuid.UUID `json:"secretId"`
		At       time.Time `json:"at"`
	}
	// Enabled follows a caller's request after Disabled or AutoDisabled.
	Enabled struct {
		At time.Time `json:"at"`
	}
	// Disabled follows a caller's request.
	Disabled struct {
		At time.Time `json:"at"`
	}
	// AutoDisabled follows consecutive failures, or an answer 410.
	AutoDisabled struct {
		Reason string    `json:"reason"` // with the number of failures; shown as statusReason
		At     time.Time `json:"at"`
	}
	// Deleted deletes the destination.
	Deleted struct {
		At time.Time `json:"at"`
	}
)

// Sealed is an encrypted value with a keyed digest, by which values can be compared without opening them.
type Sealed struct {
	Data   []byte `json:"data,omitempty"`
	Digest []byte `json:"digest,omitempty"`
	// Parts has a keyed digest for each name in the value. Optional: events from before 2026-11-27 have none.
	Parts []SealedPart `json:"parts,omitempty"`
}

// ScanBytes implements pgtype.BytesScanner: read models keep the data alone.
func (s *Sealed) ScanBytes(data []byte) error {
	*s = Sealed{Data: slices.Clone(data)}
	return nil
}

// SealedPart is a named part of a sealed value, such as a header.
type SealedPart struct {
	Name   string `json:"name"`
	Digest []byte `json:"digest"`
}

// Status of a destination.
type Status string

// Only an enabled destination gets new deliveries; pending ones wait until it is enabled again.
const (
	StatusNone         Status = "" // it does not exist
	StatusEnabled      Status = "enabled"
	StatusDisabled     Status = "disabled"
	StatusAutoDisabled Status = "auto_disabled" // by Carillon because of failures
	StatusDeleted      Status = "deleted"
)

// State is the state for decisions and for the answer to a write.
type State struct {
	Organization uuid.UUID
	Status       Status
	StatusReason string // of an automatic disabling
	Switches     int    // number of changes of the status: a decision about an earlier status is void
	Settings     Settings
	Secrets      []Secret  // oldest first, with expired ones
	SecretsAt    time.Time // of the last decision about them
	SwitchedAt   time.Time // last change of the status
	OffSince     time.Time // zero if it is enabled
	CreatedAt    time.Time
	UpdatedAt    time.Time
}

// NoticesExternalID is the externalId of the destination that gets notices about the others of its organization.
const NoticesExternalID = "carillon.notices"

// Operators owns the destination that gets the notices of all organizations. No organization has this id.
var Operators = uuid.MustParse("a7e10b1e-7a17-5c0d-9b1c-0be7a70f5a11")

// Secret is a signing secret. A zero ExpiresAt means no expiry.
type Secret struct {
	ID        uuid.UUID
	Sealed    []byte
	CreatedAt time.Time
	ExpiresAt time.Time
}

// ActiveAt reports whether the secret signs and verifies at a time.
func (s Secret) ActiveAt(now time.Time) bool { return s.ExpiresAt.IsZero() || now.Before(s.ExpiresAt) }

func (e Created) evolve(s State) State {
	s.Organization, s.Status, s.Settings = e.Organization, StatusEnabled, e.Settings
	s.CreatedAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e Revised) evolve(s State) State { s.Settings, s.UpdatedAt = e.Settings, e.At; return s }

func (e SecretMinted) evolve(s State) State {
	s.Secrets = append(slices.Clip(s.Secrets), Secret{ID: e.SecretID, Sealed: e.Sealed, CreatedAt: e.At})
	s.SecretsAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e SecretRotated) evolve(s State) State {
	for _, id := range e.Expiring {
		s.Secrets = expireAt(s.Secrets, id, e.ExpiresAt)
	}
	s.Secrets = append(slices.Clip(s.Secrets), Secret{ID: e.SecretID, Sealed: e.Sealed, CreatedAt: e.At})
	s.SecretsAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e SecretExpired) evolve(s State) State {
	s.Secrets = expireAt(s.Secrets, e.SecretID, e.At)
	s.SecretsAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e Enabled) evolve(s State) State      { return s.switched(StatusEnabled, "", e.At) }
func (e Disabled) evolve(s State) State     { return s.switched(StatusDisabled, "", e.At) }
func (e AutoDisabled) evolve(s State) State { return s.switched(StatusAutoDisabled, e.Reason, e.At) }
func (Deleted) evolve(s State) State        { s.Status, s.Secrets = StatusDeleted, nil; return s }

func (s State) switched(to Status, reason string, at time.Time) State {
	s.Status, s.StatusReason, s.SwitchedAt, s.UpdatedAt = to, reason, at, at
	s.Switches++
	switch {
	case to == StatusEnabled:
		s.OffSince = time.Time{}
	case s.OffSince.IsZero():
		s.OffSince = at
	}
	return s
}

// expireAt returns a copy, so that earlier states stay unchanged.
func expireAt(secrets []Secret, id uuid.UUID, at time.Time) []Secret {
	changed := slices.Clone(secrets)
	for i := range changed {
		if changed[i].ID == id {
			changed[i].ExpiresAt = at
		}
	}
	return changed
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Upcast[Event, createdV1]("destination.created.v1", createdV1.upcast),
	eventstore.Case[Event, Created]("destination.created.v2"),
	eventstore.Upcast[Event, revisedV1]("destination.revised.v1", revisedV1.upcast),
	eventstore.Case[Event, Revised]("destination.revised.v2"),
	eventstore.Case[Event, SecretMinted]("destination.secret-minted.v1"),
	eventstore.Case[Event, SecretRotated]("destination.secret-rotated.v1"),
	eventstore.Case[Event, SecretExpired]("destination.secret-expired.v1"),
	eventstore.Case[Event, Enabled]("destination.enabled.v1"),
	eventstore.Case[Event, Disabled]("destination.disabled.v1"),
	eventstore.Case[Event, AutoDisabled]("destination.auto-disabled.v1"),
	eventstore.Case[Event, Deleted]("destination.deleted.v1"),
)

// Aggregate binds the functions to the streams "destination-<uuid>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "destination",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]

// Target is a destination as an attempt needs it.
type Target struct {
	ID           uuid.UUID
	Organization uuid.UUID
	Enabled      bool
	URL          string // if Address is empty
	Address      []byte // the URL, sealed
	Headers      []byte // sealed
	Secrets      []SealedSecret
	Plain
}

// SealedSecret is a secret as it is stored. A zero ExpiresAt means never.
type SealedSecret struct {
	ID        uuid.UUID
	Sealed    []byte
	ExpiresAt time.Time
}

// Target returns the destination as an attempt needs it, with secrets that have expired; nil if it does not exist.
func (s State) Target(id uuid.UUID) *Target {
	if s.Status == StatusNone || s.Status == StatusDeleted {
		return nil
	}
	t := &Target{
		ID:           id,
		Organization: s.Organization,
		Enabled:      s.Status == StatusEnabled,
		URL:          s.Settings.URL,
		Address:      s.Settings.Address.Data,
		Headers:      s.Settings.Headers.Data,
		Secrets:      make([]SealedSecret, len(s.Secrets)),
		Plain:        s.Settings.Plain,
	}
	for i, secret := range s.Secrets {
		t.Secrets[i] = SealedSecret{ID: secret.ID, Sealed: secret.Sealed, ExpiresAt: secret.ExpiresAt}
	}
	return t
}
