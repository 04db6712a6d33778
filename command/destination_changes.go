package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/reservation"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// DestinationPatch changes a destination; nil fields stay as they are.
type DestinationPatch struct {
	ExternalID            *string
	Name                  *string
	URL                   *string
	Headers               *map[string]string
	DebounceWindowSeconds *int
	Enabled               *bool
}

// ReplaceDestination makes every mutable field of a destination what the input says. Its name stays.
func (c *Commands) ReplaceDestination(ctx context.Context, by Caller, id uuid.UUID, in DestinationInput) (eventstore.Position, error) {
	return c.ReviseDestination(ctx, by, id, in.replacing())
}

// replacing is the patch that makes all of a destination but its name what the input says.
func (in *DestinationInput) replacing() DestinationPatch {
	return DestinationPatch{Name: &in.Name, URL: &in.URL, Headers: &in.Headers, DebounceWindowSeconds: &in.DebounceWindowSeconds}
}

// replaceNamed replaces the destination that has the input's name. Where it does not have it any more, it fails with
// ErrWrongRevision.
func (c *Commands) replaceNamed(ctx context.Context, by Caller, id uuid.UUID, in DestinationInput) (eventstore.Position, error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return eventstore.Start, err
	case known.State.Status == destination.StatusDeleted || known.State.Settings.ExternalID != in.ExternalID:
		return eventstore.Start, eventstore.ErrWrongRevision
	}
	at, err := c.reviseDestination(ctx, by, id, known, false, in.replacing())
	if errors.Is(err, destination.ErrUnknown) || errors.Is(err, sealing.ErrShredded) { // deleted right now
		err = eventstore.ErrWrongRevision
	}
	return at, err
}

// ReviseDestination changes what the patch names. A patch that changes nothing records nothing.
func (c *Commands) ReviseDestination(ctx context.Context, by Caller, id uuid.UUID, patch DestinationPatch) (at eventstore.Position, err error) {
	if err := c.checkPatch(ctx, patch); err != nil {
		return eventstore.Start, err
	}
	if patch.ExternalID == nil {
		known, err := c.knownDestination(ctx, by, id)
		if err != nil {
			return eventstore.Start, err
		}
		return c.reviseDestination(ctx, by, id, known, false, patch)
	}
	name := reservation.Name{Scope: by.Organization, ExternalID: *patch.ExternalID}
	err = c.destinationNames().Rename(ctx, by.metadata(), id, name, func(ctx context.Context) (reservation.Renaming, error) {
		known, err := c.knownDestination(ctx, by, id)
		old := known.State.Settings.ExternalID
		return reservation.Renaming{Old: old, Rename: func(ctx context.Context) (err error) {
			at, err = c.reviseDestination(ctx, by, id, known, old != name.ExternalID, patch)
			return err
		}}, err
	})
	return at, nameRefusal(err, "another destination has externalId %q", name.ExternalID)
}

// knownDestination loads a destination of the caller's organization.
func (c *Commands) knownDestination(ctx context.Context, by Caller, id uuid.UUID) (eventstore.Loaded[destination.State], error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.VisibleTo(by.Organization) {
		err = destinationError(destination.ErrUnknown)
	}
	return known, err
}

// reviseDestination records a patch. Its name is left out, unless the destination is renamed: that is right only at the
// revision that is known.
func (c *Commands) reviseDestination(ctx context.Context, by Caller, id uuid.UUID, known eventstore.Loaded[destination.State],
	rename bool, patch DestinationPatch) (eventstore.Position, error) {
	command := destination.Revise{
		Organization: by.Organization, Name: patch.Name, URL: patch.URL,
		DebounceWindowSeconds: patch.DebounceWindowSeconds, Enabled: patch.Enabled, At: c.now(),
	}
	if rename {
		command.ExternalID = patch.ExternalID
	}
	if patch.Headers != nil {
		sealed, err := c.sealHeaders(ctx, id, *patch.Headers)
		if err != nil {
			return eventstore.Start, destinationError(err)
		}
		command.Headers = &sealed
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id, command,
		destination.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: rename})
	return out.Position, destinationError(err)
}
