// Package clientcertificate implements the aggregate of the client certificate that an organization presents to its
// receivers.
//
//	(none) ──Set──▶ set ──Set──▶ another is set … ──Remove──▶ (none) ──Set──▶ …
//
// Its stream has the organization's id. The certificate is public to all receivers. Its private key is stored in
// sealed form only, under a data key of this one certificate, so that it can be shredded when the next one is set.
package clientcertificate

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// ErrNone is returned for a removal without a certificate.
var ErrNone = errors.New("organization has no client certificate")

// Event is a stored fact about an organization's client certificate.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Set presents a first certificate.
	Set struct {
		Certificate
		At time.Time `json:"at"`
	}
	// Replaced presents another certificate.
	Replaced struct {
		Certificate
		Of uuid.UUID `json:"of"` // the replaced one
		At time.Time `json:"at"`
	}
	// Removed removes the certificate.
	Removed struct {
		ID uuid.UUID `json:"id"`
		At time.Time `json:"at"`
	}
)

// Certificate is a client certificate. A zero ID means none.
type Certificate struct {
	ID          uuid.UUID `json:"id"`          // new for each; owns the data key of Key
	Chain       string    `json:"chain"`       // PEM: the certificate, then its issuers
	Subject     string    `json:"subject"`     // RFC 2253, like Issuer
	Issuer      string    `json:"issuer"`      // the signer
	Serial      string    `json:"serial"`      // hexadecimal
	Fingerprint string    `json:"fingerprint"` // SHA-256 of the certificate, hexadecimal
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	Key         []byte    `json:"key"` // the private key, PKCS #8, sealed
}

// State has the presented certificate.
type State struct {
	Certificate Certificate
	SetAt       time.Time
}

// Exists reports whether a certificate is presented.
func (s State) Exists() bool { return s.Certificate.ID != uuid.Nil }

func (e Set) evolve(State) State      { return State{Certificate: e.Certificate, SetAt: e.At} }
func (e Replaced) evolve(State) State { return State{Certificate: e.Certificate, SetAt: e.At} }
func (Removed) evolve(State) State    { return State{} }

// Command is an intention; times, new ids and sealed values arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// SetCertificate presents a certificate. Repeating it changes nothing.
	SetCertificate struct {
		Certificate
		Lost uuid.UUID // certificate whose sealed key can't be opened any more: even the same one replaces it
		At   time.Time
	}
	// Remove removes the certificate.
	Remove struct{ At time.Time }
)

func (c SetCertificate) decide(s State) ([]Event, error) {
	shown := s.Certificate
	switch {
	case !s.Exists():
		return []Event{Set{Certificate: c.Certificate, At: c.At}}, nil
	case shown.ID == c.ID, shown.Chain == c.Chain && shown.ID != c.Lost:
		return nil, nil
	}
	return []Event{Replaced{Certificate: c.Certificate, Of: shown.ID, At: c.At}}, nil
}

func (c Remove) decide(s State) ([]Event, error) {
	if !s.Exists() {
		return nil, ErrNone
	}
	return []Event{Removed{ID: s.Certificate.ID, At: c.At}}, nil
}

// Ended returns the certificate that an event ended, whose data key is to be shredded; uuid.Nil for none.
func Ended(event Event) uuid.UUID {
	switch e := event.(type) {
	case Set:
	case Replaced:
		return e.Of
	case Removed:
		return e.ID
	}
	return uuid.Nil
}

// Events maps stored names to facts. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Set]("client_certificate.set.v1"),
	eventstore.Case[Event, Replaced]("client_certificate.replaced.v1"),
	eventstore.Case[Event, Removed]("client_certificate.removed.v1"),
)

// Aggregate binds the functions to the streams "client_certificate-<uuid of the organization>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "client_certificate",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options are the options of Aggregate.Execute.
type Options = eventstore.Options[State]
