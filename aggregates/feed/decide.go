package feed

import (
	"errors"
	"time"

	"github.com/google/uuid"
)

// Errors of a feed.
var (
	ErrUnknown            = errors.New("feed does not exist")
	ErrForbidden          = errors.New("only the organization that owns the feed may change it")
	ErrExists             = errors.New("another feed has this id")
	ErrUnknownAssociation = errors.New("feed has no such source association")
	ErrRevisedSince       = errors.New("the feed was changed since it was looked at: look what it is now, and send " +
		"yours again to put it in its place")
)

// Command is an intention; times and new ids arrive inside it. A command of an owner names the requesting
// organization, for which a feed that it can't read does not exist.
//
//sumtype:decl
type Command interface{ decide(State) ([]Event, error) }

type (
	// Create creates an event feed. Repeating it changes nothing.
	Create struct {
		Organization uuid.UUID
		Settings     Settings
		Enabled      bool
		At           time.Time
	}
	// Register makes a feed of another system known. Repeating it changes nothing.
	Register struct {
		Organization uuid.UUID
		FeedType     string
		Name         string
		At           time.Time
	}
	// Revise changes settings and the status of the feed. Nil fields stay.
	Revise struct {
		Organization uuid.UUID
		Seen         time.Time // Optional. UpdatedAt of the replaced settings: if they have changed since, nothing changes
		Name         *string
		Description  *string
		Config       *Config
		Enabled      *bool
		By           string // the actor: ByAPI, ByAdmin
		Reason       string
		At           time.Time
	}
	// AttachSource attaches a source that fills the feed. Repeating it changes nothing.
	AttachSource struct {
		Organization  uuid.UUID
		AssociationID uuid.UUID
		SourceID      uuid.UUID
		SourceType    string
		Known         bool // the last walk through the source is not overdue
		At            time.Time
	}
	// DetachSource ends an association.
	DetachSource struct {
		Organization  uuid.UUID
		AssociationID uuid.UUID
		At            time.Time
	}
	// Share permits another organization to read the feed. It is an operator's command.
	Share struct {
		FeedType string
		With     uuid.UUID
		At       time.Time
	}
	// Unshare revokes that. It is an operator's command.
	Unshare struct {
		FeedType string
		With     uuid.UUID
		At       time.Time
	}
	// Delete deletes the feed permanently.
	Delete struct {
		Organization uuid.UUID
		At           time.Time
	}
	// End deletes a feed of any type after its owner. Repeating it changes nothing.
	End struct{ At time.Time }
)

// ChangeableBy returns an error if an organization may not change the event feed.
func (s State) ChangeableBy(organization uuid.UUID) error {
	switch {
	case s.FeedType != TypeEvent || !s.VisibleTo(organization):
		return ErrUnknown
	case s.Organization != organization:
		return ErrForbidden
	}
	return nil
}

func (c Create) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		return []Event{Created{
			Organization: c.Organization,
			Settings:     c.Settings,
			Enabled:      c.Enabled,
			At:           c.At,
		}}, nil
	case StatusEnabled, StatusDisabled:
		if s.FeedType == TypeEvent && s.Organization == c.Organization {
			return nil, nil
		}
		return nil, ErrExists
	case StatusDeleted:
	}
	return nil, ErrUnknown
}

func (c Register) decide(s State) ([]Event, error) {
	switch s.Status {
	case StatusNone:
		return []Event{Registered(c)}, nil
	case StatusEnabled, StatusDisabled:
		if s.FeedType == c.FeedType && s.Organization == c.Organization && s.Settings.Name == c.Name {
			return nil, nil
		}
	case StatusDeleted:
	}
	return nil, ErrExists
}

func (c Revise) decide(s State) ([]Event, error) {
	if err := s.ChangeableBy(c.Organization); err != nil {
		return nil, err
	}
	if !c.Seen.IsZero() && !c.Seen.Equal(s.UpdatedAt) {
		return nil, ErrRevisedSince
	}
	var events []Event
	wanted := s.Settings
	set(&wanted.Name, c.Name)
	set(&wanted.Description, c.Description)
	set(&wanted.Config, c.Config)
	if wanted != s.Settings {
		events = append(events, Revised{Settings: wanted, At: c.At})
	}
	switch {
	case c.Enabled == nil:
	case *c.Enabled && s.Status != StatusEnabled:
		events = append(events, Enabled{By: c.By, Reason: c.Reason, At: c.At})
	case !*c.Enabled && s.Status != StatusDisabled:
		events = append(events, Disabled{By: c.By, Reason: c.Reason, At: c.At})
	}
	return events, nil
}

func set[T any](field, value *T) {
	if value != nil {
		*field = *value
	}
}

func (c AttachSource) decide(s State) ([]Event, error) {
	if err := s.ChangeableBy(c.Organization); err != nil {
		return nil, err
	}
	if _, attached := s.SourceAssociation(c.SourceID); attached {
		return nil, nil
	}
	return []Event{SourceAttached{
		AssociationID: c.AssociationID,
		SourceID:      c.SourceID,
		SourceType:    c.SourceType,
		Known:         c.Known,
		At:            c.At,
	}}, nil
}

func (c DetachSource) decide(s State) ([]Event, error) {
	if err := s.ChangeableBy(c.Organization); err != nil {
		return nil, err
	}
	association, attached := s.Association(c.AssociationID)
	if !attached {
		return nil, ErrUnknownAssociation
	}
	return []Event{SourceDetached{AssociationID: c.AssociationID, SourceID: association.SourceID, At: c.At}}, nil
}

func (c Share) decide(s State) ([]Event, error) {
	switch {
	case !s.exists() || s.FeedType != c.FeedType:
		return nil, ErrUnknown
	case s.VisibleTo(c.With): // the owner needs no share
		return nil, nil
	}
	return []Event{Shared{With: c.With, At: c.At}}, nil
}

func (c Unshare) decide(s State) ([]Event, error) {
	switch {
	case !s.exists() || s.FeedType != c.FeedType:
		return nil, ErrUnknown
	case !s.sharedWith(c.With):
		return nil, nil
	}
	return []Event{Unshared{With: c.With, At: c.At}}, nil
}

func (c Delete) decide(s State) ([]Event, error) {
	if err := s.ChangeableBy(c.Organization); err != nil {
		return nil, err // a deleted feed does not exist for a second command
	}
	return []Event{Deleted{At: c.At}}, nil
}

func (c End) decide(s State) ([]Event, error) {
	if !s.exists() {
		return nil, nil
	}
	return []Event{Deleted(c)}, nil
}
