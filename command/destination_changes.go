package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/reservation"
	"carillon/command/webhook"
	"carillon/eventstore"
)

// ReviseDestination is the input of a change.
type ReviseDestination struct {
	ID uuid.UUID
	DestinationSettings

	Sets    destination.Field // the settings that change
	Enabled *bool             // Optional
	// Expected is the revision whose settings the caller replaces. If they were changed since, the change is refused with
	// destination.ErrRevisedSince, and the present destination is returned. It is for callers that set all of them, as
	// forms do. nil means that the last writer wins.
	Expected *eventstore.Revision
}

// ReviseDestination changes what the input names. An input that changes nothing records nothing.
func (c *Commands) ReviseDestination(
	ctx context.Context, by Caller, in ReviseDestination,
) (changed Result[destination.State], err error) {
	if err := c.checkFields(ctx, in.DestinationSettings, in.Sets); err != nil {
		return changed, err
	}
	seen, err := c.seenSettings(ctx, in)
	if err != nil {
		return changed, err
	}
	if !in.Sets.Has(destination.FieldExternalID) {
		known, err := c.knownDestination(ctx, by, in.ID)
		if err != nil {
			return changed, err
		}
		return c.reviseDestination(ctx, by, known, seen, false, in)
	}
	name := reservation.Name{Scope: by.Organization, ExternalID: in.ExternalID}
	err = c.destinationNames().Rename(ctx, by.metadata(), in.ID, name,
		func(ctx context.Context) (reservation.Renaming, error) {
			known, err := c.knownDestination(ctx, by, in.ID)
			if err == nil && seen != nil && !seen.Equal(known.State.Settings) { // before a name is reserved for it
				changed, err = resultOf(in.ID, known), refused(destination.ErrRevisedSince)
			}
			old := known.State.Settings.ExternalID
			return reservation.Renaming{Old: old, Rename: func(ctx context.Context) (err error) {
				changed, err = c.reviseDestination(ctx, by, known, seen, old != name.ExternalID, in)
				return err
			}}, err
		})
	return changed, nameRefusal(err, "another destination has externalId %q", name.ExternalID)
}

// replaceNamed replaces the destination that has the input's name. If it does not have it any more, it fails with
// ErrWrongRevision.
func (c *Commands) replaceNamed(
	ctx context.Context, by Caller, id uuid.UUID, in CreateDestination,
) (changed Result[destination.State], err error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return changed, err
	case known.State.Status == destination.StatusDeleted || known.State.Settings.ExternalID != in.ExternalID:
		return changed, eventstore.ErrWrongRevision
	}
	changed, err = c.reviseDestination(ctx, by, known, nil, false, ReviseDestination{
		ID:                  id,
		DestinationSettings: in.DestinationSettings,
		Sets:                destination.FieldsAll &^ destination.FieldExternalID,
	})
	if errors.Is(err, destination.ErrUnknown) { // deleted right now
		err = eventstore.ErrWrongRevision
	}
	return changed, err
}

// knownDestination loads a destination of the caller's organization.
func (c *Commands) knownDestination(
	ctx context.Context, by Caller, id uuid.UUID,
) (eventstore.Loaded[destination.State], error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.VisibleTo(by.Organization) {
		err = refused(destination.ErrUnknown)
	}
	return known, err
}

// seenSettings are those that the caller looked at, or nil if that does not matter.
func (c *Commands) seenSettings(ctx context.Context, in ReviseDestination) (*destination.Settings, error) {
	if in.Expected == nil {
		return nil, nil
	}
	then, err := destination.Aggregate.LoadAt(ctx, c.Store, in.ID, *in.Expected)
	return &then.State.Settings, err
}

// reviseDestination records a change. Its name is left out, unless the destination is renamed: that is right only at
// the revision that is known.
func (c *Commands) reviseDestination(ctx context.Context, by Caller, known eventstore.Loaded[destination.State],
	seen *destination.Settings, rename bool, in ReviseDestination) (changed Result[destination.State], err error) {
	if in.Sets != 0 && !in.Sets.Has(destination.FieldURL) && known.State.Settings.Exposed() { // no new event has it open
		if known, err = c.sealExposed(ctx, by, in.ID, known); err != nil {
			return changed, c.unsealable(ctx, in.ID, err)
		}
	}
	command := destination.Revise{
		Organization: by.Organization,
		Seen:         seen,
		Sets:         in.Sets,
		Enabled:      in.Enabled,
		ReadsHeaders: by.ReadsSecrets,
		At:           c.now(),
	}
	if !rename {
		command.Sets &^= destination.FieldExternalID
	}
	if command.Settings, err = c.sealSettings(ctx, in.ID, in.DestinationSettings, in.Sets); err != nil {
		return changed, c.unsealable(ctx, in.ID, err)
	}
	out, err := destination.Aggregate.Execute(ctx, c.Store, in.ID, command,
		destination.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: rename})
	return resultOf(in.ID, out.Loaded), refused(err)
}

// unsealable returns why nothing can be sealed for a destination. Its data key goes with it when it is deleted; that of
// a live one was lost, and only its owner can decide to continue without the sealed data.
func (c *Commands) unsealable(ctx context.Context, id uuid.UUID, err error) error {
	if !keyLost(err) {
		return refused(err)
	}
	known, loadErr := destination.Aggregate.Load(ctx, c.Store, id)
	switch {
	case loadErr != nil:
		return loadErr
	case known.State.Status == destination.StatusDeleted: // right now
		return refused(destination.ErrUnknown)
	}
	return refuse(Conflict, "", "the destination's data key is lost: rotate its secret, which makes another key, "+
		"then set its address and headers")
}

// ValidateConfig is the input of a check.
type ValidateConfig struct {
	URL     string
	Headers map[string]string
}

// ValidateConfig checks a destination's configuration without saving it. Only a broken rule is an error; an endpoint
// that can't be reached is reported.
func (c *Commands) ValidateConfig(ctx context.Context, by Caller, in ValidateConfig) (webhook.Reachability, error) {
	if err := c.checkConfig(ctx, in.URL, in.Headers); err != nil {
		return webhook.Reachability{}, err
	}
	return c.Prober.Probe(ctx, by.Organization, in.URL), nil
}
