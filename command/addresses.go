package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/command/sealing"
	"carillon/eventstore"
)

// sealAddress returns the public part of a destination's URL, and the URL sealed if it has more parts.
func (c *Commands) sealAddress(
	ctx context.Context, id uuid.UUID, url string,
) (shown string, sealed destination.Sealed, err error) {
	if !destination.Hides(url) {
		return url, sealed, nil
	}
	sealed, err = c.seal(ctx, id, sealing.Address, []byte(url))
	return destination.Masked(url, sealed.Digest), sealed, err
}

func (c *Commands) seal(ctx context.Context, id uuid.UUID, field sealing.Field, plain []byte,
) (sealed destination.Sealed, err error) {
	if sealed.Data, err = c.Vault.Seal(ctx, id, field, plain); err != nil {
		return sealed, err
	}
	sealed.Digest, err = c.Vault.Digest(ctx, id, plain)
	return sealed, err
}

// SealAddress seals the open address of a destination, as earlier versions recorded it, and reports whether it did. If
// it is sealed already, or the destination is gone, or its key, nothing happens. Stored events do not change: they keep
// their open addresses.
func (c *Commands) SealAddress(ctx context.Context, by Caller, id uuid.UUID) (sealed bool, err error) {
	known, err := destination.Aggregate.Load(ctx, c.Store, id)
	if err != nil || known.State.Status == destination.StatusDeleted || !known.State.Settings.Exposed() {
		return false, err
	}
	if _, err = c.sealExposed(ctx, by, id, known); errors.Is(err, destination.ErrUnknown) || keyLost(err) {
		return false, nil
	}
	return err == nil, err
}

// sealExposed seals an open address, and returns the destination afterwards.
func (c *Commands) sealExposed(ctx context.Context, by Caller, id uuid.UUID, known eventstore.Loaded[destination.State],
) (eventstore.Loaded[destination.State], error) {
	open := known.State.Settings.URL
	shown, sealed, err := c.sealAddress(ctx, id, open)
	if err != nil {
		return known, err
	}
	metadata := by.metadata()
	metadata.Organization, metadata.Reason = known.State.Organization, "its address is sealed now"
	out, err := destination.Aggregate.Execute(ctx, c.Store, id,
		destination.SealAddress{
			Open:    open,
			URL:     shown,
			Address: sealed,
			At:      c.now(),
		},
		destination.Options{Metadata: metadata, Known: &known})
	return out.Loaded, err
}
