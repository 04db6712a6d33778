package command

import (
	"context"
	"errors"
	"regexp"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/command/reservation"
	"carillon/eventstore"
)

var externalIDForm = regexp.MustCompile(`^[A-Za-z0-9._:-]{1,255}$`)

// CheckExternalID applies the rules for names that callers give. field is the JSON path to name in the refusal.
func CheckExternalID(field, id string) error {
	switch {
	case !externalIDForm.MatchString(id):
		return refuse(Malformed, field, "%s must be 1 to 255 characters from A-Z a-z 0-9 . _ : -", field)
	case id == "." || id == "..":
		return refuse(Malformed, field, "%s must not be \".\" or \"..\"", field)
	case UUIDShaped(id):
		return refuse(Malformed, field, "%s must not have the form of a UUID", field)
	}
	return nil
}

// UUIDShaped reports whether a path segment is a UUID in its usual form.
func UUIDShaped(s string) bool {
	_, err := uuid.Parse(s)
	return err == nil && len(s) == 36
}

// destinationNames are the externalIds of destinations, whose scope is their organization.
func (c *Commands) destinationNames() reservation.Names {
	return namesOf(c, &destination.Aggregate, func(s *destination.State) (externalID string, deleted bool) {
		return s.Settings.ExternalID, s.Status == destination.StatusDeleted
	})
}

// subscriptionNames are the externalIds of subscriptions, whose scope is their destination.
func (c *Commands) subscriptionNames() reservation.Names {
	return namesOf(c, &subscription.Aggregate, func(s *subscription.State) (externalID string, deleted bool) {
		return s.Settings.ExternalID, s.Status == subscription.StatusDeleted
	})
}

func namesOf[S, E, C any](
	c *Commands, of *eventstore.Aggregate[S, E, C], read func(*S) (externalID string, deleted bool),
) reservation.Names {
	return reservation.Names{
		Store: c.Store,
		Now:   c.Now,
		Owner: func(ctx context.Context, id uuid.UUID) (reservation.Owner, error) {
			loaded, err := of.Load(ctx, c.Store, id)
			owner := reservation.Owner{Revision: loaded.Revision, Position: loaded.Position}
			owner.ExternalID, owner.Deleted = read(&loaded.State)
			return owner, err
		},
	}
}

// nameRefusal refuses a name that can't be had. taken is the message where another has it.
func nameRefusal(err error, taken string, args ...any) error {
	var refusal *Refusal
	switch {
	case errors.Is(err, reservation.ErrTaken):
		refusal = refuse(Exists, "externalId", taken, args...)
	case errors.Is(err, reservation.ErrContended), errors.Is(err, eventstore.ErrWrongRevision):
		refusal = refuse(Conflict, "externalId", "other requests are changing this externalId at the same time: try again")
	default:
		return err
	}
	refusal.Err = err
	return refusal
}
