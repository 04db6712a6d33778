package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/externalid"
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

	bearing string // where not empty, it is meant for the bearer of this name only
}

// ReplaceDestination makes every mutable field of a destination what the input says. Its name stays.
func (c *Commands) ReplaceDestination(ctx context.Context, by Caller, id uuid.UUID, in DestinationInput) (eventstore.Position, error) {
	return c.ReviseDestination(ctx, by, id, in.replacing())
}

// replacing is the patch that makes all of a destination but its name what the input says.
func (in *DestinationInput) replacing() DestinationPatch {
	return DestinationPatch{Name: &in.Name, URL: &in.URL, Headers: &in.Headers, DebounceWindowSeconds: &in.DebounceWindowSeconds}
}

// ReviseDestination changes what the patch names. A patch that changes nothing records nothing.
func (c *Commands) ReviseDestination(ctx context.Context, by Caller, id uuid.UUID, patch DestinationPatch) (at eventstore.Position, err error) {
	if err := c.checkPatch(ctx, patch); err != nil {
		return eventstore.Start, err
	}
	if patch.ExternalID == nil {
		return c.reviseDestination(ctx, by, id, patch)
	}
	err = untilNamed(ctx, func() error {
		at, err = c.reviseDestination(ctx, by, id, patch)
		return err
	})
	return at, err
}

func (c *Commands) reviseDestination(ctx context.Context, by Caller, id uuid.UUID, patch DestinationPatch) (eventstore.Position, error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err != nil {
		return eventstore.Start, err
	}
	bears := known.State.Settings.ExternalID
	switch {
	case patch.bearing != "" && (known.State.Status == destination.StatusDeleted || bears != patch.bearing):
		return eventstore.Start, errOthersName
	case !known.State.VisibleTo(by.Organization):
		return eventstore.Start, destinationError(destination.ErrUnknown)
	}
	command := destination.Revise{
		Organization: by.Organization, Name: patch.Name, URL: patch.URL,
		DebounceWindowSeconds: patch.DebounceWindowSeconds, Enabled: patch.Enabled, At: c.now(),
	}
	if patch.Headers != nil {
		sealed, err := c.sealHeaders(ctx, id, *patch.Headers)
		if err != nil {
			return eventstore.Start, destinationError(err)
		}
		command.Headers = &sealed
	}
	if patch.ExternalID != nil && *patch.ExternalID != bears {
		command.ExternalID = patch.ExternalID
		return c.renameDestination(ctx, by, id, known, command)
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id,
		command, destination.Options{Metadata: by.metadata(), Known: &known})
	return out.Position, destinationError(err)
}

// renameDestination records a command with another name, if the destination is still as known. See releaseOld.
func (c *Commands) renameDestination(ctx context.Context, by Caller, id uuid.UUID, known eventstore.Loaded[destination.State],
	command destination.Revise) (eventstore.Position, error) {
	old, name := known.State.Settings.ExternalID, *command.ExternalID
	reserved, err := c.reserved(ctx, by.Organization, old)
	if err != nil {
		return eventstore.Start, err
	}
	_, err = c.claim(ctx, by, by.Organization, name, id, c.destinationBears)
	switch {
	case errors.Is(err, externalid.ErrTaken):
		return eventstore.Start, refuse(Exists, "externalId", "another destination has externalId %q", name)
	case err != nil:
		return eventstore.Start, err
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, id,
		command, destination.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: true})
	if err != nil {
		err = destinationError(err)
		c.unclaim(ctx, by, by.Organization, name, id, err)
		return eventstore.Start, err
	}
	return out.Position, c.releaseOld(ctx, by, by.Organization, old, reserved, id)
}
