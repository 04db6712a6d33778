// Package clientcertificate decides about the client certificate that an organization shows to its receivers.
//
//	(none) ──Set──▶ set ──Set──▶ another is set … ──Remove──▶ (none) ──Set──▶ …
//
// Its stream has the organization's id. The certificate lies open: whoever receives has seen it. Its private key is
// here in sealed form only, under a data key of this one certificate, so that it can be shredded when the next one is
// set.
package clientcertificate

import (
	"errors"
	"time"

	"github.com/google/uuid"

	"carillon/eventstore"
)

// ErrNone is what a removal meets where there is nothing to remove.
var ErrNone = errors.New("organization has no client certificate")

// Event is a stored fact about an organization's client certificate.
//
//sumtype:decl
type Event interface{ evolve(State) State }

type (
	// Set begins to show a certificate, where none was shown.
	Set struct {
		Certificate
		At time.Time `json:"at"`
	}
	// Replaced shows another certificate in the place of one, which ends.
	Replaced struct {
		Certificate
		Of uuid.UUID `json:"of"` // the one that ends
		At time.Time `json:"at"`
	}
	// Removed ends a certificate: none is shown.
	Removed struct {
		ID uuid.UUID `json:"id"`
		At time.Time `json:"at"`
	}
)

// Certificate is a client certificate. A zero ID is none.
type Certificate struct {
	ID          uuid.UUID `json:"id"`          // fresh for each; owns the data key of Key
	Chain       string    `json:"chain"`       // PEM: the certificate, and after it those that signed it
	Subject     string    `json:"subject"`     // RFC 2253, as Issuer
	Issuer      string    `json:"issuer"`      // whoever signed it
	Serial      string    `json:"serial"`      // hexadecimal
	Fingerprint string    `json:"fingerprint"` // SHA-256 of the certificate, hexadecimal
	NotBefore   time.Time `json:"notBefore"`
	NotAfter    time.Time `json:"notAfter"`
	Key         []byte    `json:"key"` // the private key, PKCS #8, sealed
}

// State is the certificate that is shown.
type State struct {
	Certificate Certificate
	SetAt       time.Time
}

// Exists reports whether one is shown.
func (s State) Exists() bool { return s.Certificate.ID != uuid.Nil }

func (e Set) evolve(State) State      { return State{Certificate: e.Certificate, SetAt: e.At} }
func (e Replaced) evolve(State) State { return State{Certificate: e.Certificate, SetAt: e.At} }
func (Removed) evolve(State) State    { return State{} }

// Command is an intention; times, new ids and sealed values arrive inside it.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// SetCertificate shows a certificate from now on. The one that is shown already, set again, changes nothing.
	SetCertificate struct {
		Certificate
		Lost uuid.UUID // the certificate whose sealed key can't be opened any more: it is replaced even by the same one
		At   time.Time
	}
	// Remove ends the certificate.
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

// Ended is the certificate that an event ended; none with uuid.Nil. Its data key is to be shredded.
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

// Events names each fact as stored. Never rename; add ".v2" and upcast.
var Events = eventstore.NewCodec(
	eventstore.Case[Event, Set]("client_certificate.set.v1"),
	eventstore.Case[Event, Replaced]("client_certificate.replaced.v1"),
	eventstore.Case[Event, Removed]("client_certificate.removed.v1"),
)

// Aggregate binds it all to the streams "client_certificate-<uuid of the organization>".
var Aggregate = eventstore.Aggregate[State, Event, Command]{
	Category: "client_certificate",
	Codec:    Events,
	Evolve:   func(s State, e Event) State { return e.evolve(s) },
	Decide:   func(s State, c Command) ([]Event, error) { return c.decide(s) },
}

// Options go with a command to Aggregate.Execute.
type Options = eventstore.Options[State]
