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

// The intentions.
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

func (s State) existsFor(organization, destination uuid.UUID) bool {
	return s.Organization != uuid.Nil && !s.Deleted && s.Organization == organization && s.Destination == destination
}

func (c Create) decide(s State) ([]Event, error) {
	switch {
	case s.Deleted:
		return nil, ErrUnknown
	case s.Organization != uuid.Nil:
		return nil, nil
	}
	if err := c.Settings.Validate(); err != nil {
		return nil, err
	}
	return []Event{Created{Organization: c.Organization, Destination: c.Destination, Settings: c.Settings, At: c.At}}, nil
}

func (c Revise) decide(s State) ([]Event, error) {
	if !s.existsFor(c.Organization, c.Destination) {
		return nil, ErrUnknown
	}
	var events []Event
	merged := c.Merge(s.Settings)
	if err := merged.Validate(); err != nil {
		return nil, err
	}
	if !merged.Equal(s.Settings) {
		events = append(events, Revised{Settings: merged, At: c.At})
	}
	switch {
	case c.Active == nil || *c.Active == s.Active:
	case *c.Active:
		events = append(events, Activated{At: c.At})
	default:
		events = append(events, Deactivated{At: c.At})
	}
	return events, nil
}

// Merge are the settings as they would be after the command. A scope kind that takes no feed type or no pins sheds
// the stored ones, unless the command names them, which Validate then refuses.
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
	switch {
	case s.Organization == uuid.Nil || s.Deleted:
		return nil, ErrUnknown
	case !s.Active || s.Switches != c.Switches:
		return nil, nil
	}
	return []Event{Deactivated{Reason: c.Reason, At: c.At}}, nil
}

func (c Delete) decide(s State) ([]Event, error) {
	byPlatform := c.Organization == uuid.Nil && s.Organization != uuid.Nil
	switch {
	case s.Deleted && (byPlatform || s.Organization == c.Organization):
		return nil, nil
	case !byPlatform && !s.existsFor(c.Organization, c.Destination):
		return nil, ErrUnknown
	}
	return []Event{Deleted{At: c.At}}, nil
}
