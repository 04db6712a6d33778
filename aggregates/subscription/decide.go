package subscription

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// ErrUnknown: no such subscription of this destination and organization.
var ErrUnknown = errors.New("subscription does not exist")

// Command is an intention. Every command of a caller names the organization that asks.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Create begins a subscription. Creating one that exists changes nothing.
	Create struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		Settings     Settings
		At           time.Time
	}
	// Revise merges: nil fields stay as they are, and the result is validated as a whole.
	Revise struct {
		Organization uuid.UUID
		Destination  uuid.UUID
		ExternalID   *string
		EventTypes   []string
		ScopeKind    *string
		FeedType     *string
		Feeds        *[]Pin
		Active       *bool
		At           time.Time
	}
	// Deactivate is the platform's reaction to lost feed access. Once the subscription was switched it is void, so that
	// a reaction that comes late, or again after a replay of all events, undoes nobody's decision.
	Deactivate struct {
		Switches int // of the state that was looked at
		Reason   string
		At       time.Time
	}
	// Delete ends the subscription. A zero Organization is the platform's, when the destination is deleted.
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

// statusFor is the status as an organization is told it: that of another one, or at another destination, does not
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
	merged := c.Merge(s.Settings)
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

// Merge are the settings as they would be after the command. A scope kind that takes no feed type or no pins sheds the
// stored ones, unless the command names them, which Validate then refuses.
func (c Revise) Merge(d Settings) Settings {
	if c.ExternalID != nil {
		d.ExternalID = *c.ExternalID
	}
	if c.EventTypes != nil {
		d.EventTypes = c.EventTypes
	}
	if c.ScopeKind != nil {
		d.ScopeKind = *c.ScopeKind
		if d.ScopeKind != ScopeFeedType {
			d.FeedType = ""
		}
		if d.ScopeKind != ScopeFeeds {
			d.Feeds = nil
		}
	}
	if c.FeedType != nil {
		d.FeedType = *c.FeedType
	}
	if c.Feeds != nil {
		d.Feeds = *c.Feeds
	}
	return d
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
	status := s.Status // as the platform sees it
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
