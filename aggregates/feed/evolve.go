package feed

import (
	"slices"

	"github.com/google/uuid"
)

func (e Created) evolve(s State) State {
	s.Organization, s.FeedType, s.Settings = e.Organization, TypeEvent, e.Settings
	s.Status, s.EnabledBy = StatusDisabled, BySystem
	if e.Enabled {
		s.Status = StatusEnabled
	}
	s.CreatedAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e Registered) evolve(s State) State {
	s.Organization, s.FeedType = e.Organization, e.FeedType
	s.Settings = Settings{Name: e.Name}
	s.Status, s.EnabledBy = StatusEnabled, BySystem
	s.CreatedAt, s.UpdatedAt = e.At, e.At
	return s
}

func (e Revised) evolve(s State) State {
	s.Settings, s.UpdatedAt = e.Settings, e.At
	return s
}

func (e Enabled) evolve(s State) State {
	s.Status, s.EnabledBy, s.EnabledReason, s.UpdatedAt = StatusEnabled, e.By, e.Reason, e.At
	return s
}

func (e Disabled) evolve(s State) State {
	s.Status, s.EnabledBy, s.EnabledReason, s.UpdatedAt = StatusDisabled, e.By, e.Reason, e.At
	return s
}

func (e SourceAttached) evolve(s State) State {
	added := Association{
		ID:         e.AssociationID,
		SourceID:   e.SourceID,
		SourceType: e.SourceType,
		At:         e.At,
	}
	s.Associations = append(slices.Clone(s.Associations), added)
	return s
}

func (e SourceDetached) evolve(s State) State {
	s.Associations = slices.DeleteFunc(slices.Clone(s.Associations), func(a Association) bool {
		return a.ID == e.AssociationID
	})
	return s
}

func (e Shared) evolve(s State) State {
	s.SharedWith = append(slices.Clone(s.SharedWith), e.With)
	return s
}

func (e Unshared) evolve(s State) State {
	s.SharedWith = slices.DeleteFunc(slices.Clone(s.SharedWith), func(id uuid.UUID) bool { return id == e.With })
	return s
}

func (Deleted) evolve(s State) State {
	s.Status, s.Associations, s.SharedWith = StatusDeleted, nil, nil
	return s
}
