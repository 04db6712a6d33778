package subscription

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Refusals.
var (
	// ErrUnknown is returned if the destination and organization have no such subscription.
	ErrUnknown = errors.New("subscription does not exist")
	// ErrRevisedSince is returned if the subscription was changed since the caller looked at it.
	ErrRevisedSince = errors.New("the subscription was changed since it was looked at: look what it is now, and send it " +
		"again")
)

// Command is an intention. Every command of a caller names the requesting organization.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Create creates a subscription. Repeating it changes nothing.
	Create struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Settings     Settings
		At           time.Time
	}
	// Revise changes settings, and optionally the status. The result is validated as a whole.
	Revise struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Sets         Field    // the fields that change
		Settings     Settings // their values
		Active       *bool    // Optional
		At           time.Time
	}
	// Deactivate is the platform's reaction to lost feed access. Once the status has changed it is void, so that a late
	// reaction, or one from a replay of all events, does not revert a decision.
	Deactivate struct {
		Switches int // of the examined state
		Reason   string
		At       time.Time
	}
	// Delete deletes the subscription. A zero Organization is the platform, after the destination was deleted.
	Delete struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		At           time.Time
	}
)

// VisibleTo reports whether the subscription exists for an organization, at one of its destinations.
func (s State) VisibleTo(organization, destination uuid.UUID) bool {
	switch s.statusFor(organization, destination) {
	case StatusActive, StatusInactive:
		return true
	case StatusNone, StatusDeleted:
	}
	return false
}

// statusFor returns the status for an organization: a subscription of another one, or at another destination, does not
// exist.
func (s State) statusFor(organization, destination uuid.UUID) Status {
	if s.Organization != organization || s.Destination != destination {
		return StatusNone
	}
	return s.Status
}

func (c Create) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		if err := c.Settings.Validate(); err != nil {
			return nil, err
		}
		c.Settings.Feeds = distinct(c.Settings.Feeds)
		return []Event{Created(c)}, nil
	case StatusActive, StatusInactive:
		return nil, nil
	case StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Revise) decide(s State) ([]Event, error) {
	if !s.VisibleTo(c.Organization, c.Destination) {
		return nil, ErrUnknown
	}
	var events []Event
	merged := s.Settings.With(c.Sets, c.Settings)
	if err := merged.Validate(); err != nil {
		return nil, err
	}
	if !merged.Equal(s.Settings) {
		merged.Feeds = distinct(merged.Feeds)
		events = append(events, Revised{Settings: merged, At: c.At})
	}
	switch {
	case c.Active == nil:
	case *c.Active && s.Status != StatusActive:
		events = append(events, Activated{At: c.At})
	case !*c.Active && s.Status != StatusInactive:
		events = append(events, Deactivated{At: c.At})
	}
	return events, nil
}

func (c Deactivate) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusActive:
		if s.Switches != c.Switches {
			return nil, nil
		}
		return []Event{Deactivated{Reason: c.Reason, At: c.At}}, nil
	case StatusInactive:
		return nil, nil
	case StatusNone, StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Delete) decide(s State) ([]Event, error) {
	status := s.Status // for the platform
	if c.Organization != uuid.Nil {
		status = s.statusFor(c.Organization, c.Destination)
	}
	switch status {
	case StatusActive, StatusInactive:
		return []Event{Deleted{At: c.At}}, nil
	case StatusDeleted:
		return nil, nil
	case StatusNone:
	}
	return nil, ErrUnknown
}
