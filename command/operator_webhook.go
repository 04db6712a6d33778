package command

import (
	"context"
	"errors"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/externalid"
	"carillon/command/sealing"
	"carillon/command/webhook"
)

// SetOperatorWebhook is the input of a setting: the address that gets the notices of all organizations, and the secret
// that signs them. No URL means no address.
type SetOperatorWebhook struct {
	URL    string
	Secret webhook.Secret
}

// SetOperatorWebhook makes, changes or deletes the destination of the operators. Another secret signs beside the former
// one for 24 hours, as after a rotation. Repeated, it changes nothing.
func (c *Commands) SetOperatorWebhook(ctx context.Context, by Caller, in SetOperatorWebhook) error {
	by.Organization = destination.Operators
	if in.URL == "" {
		return c.endOperatorWebhook(ctx, by)
	}
	made, err := c.UpsertDestination(ctx, by, UpsertDestination{
		DestinationSettings: DestinationSettings{Settings: destination.Settings{
			ExternalID: destination.NoticesExternalID,
			Name:       "Operators",
			URL:        in.URL,
		}},
		Secret: in.Secret,
	})
	if err != nil || made.Created {
		return err
	}
	signs, err := c.signs(ctx, made.ID, made.Value, in.Secret)
	if err != nil || signs {
		return err
	}
	_, err = c.RotateSecret(ctx, by, RotateSecret{Destination: made.ID, Secret: in.Secret})
	return err
}

// signs reports whether a secret is one of a destination, and does not expire.
func (c *Commands) signs(ctx context.Context, id uuid.UUID, of destination.State, secret webhook.Secret) (bool, error) {
	for _, known := range of.Secrets {
		if !known.ExpiresAt.IsZero() {
			continue
		}
		plain, err := c.Vault.Open(ctx, id, sealing.Secret, known.Sealed)
		if err != nil && !keyLost(err) {
			return false, err
		}
		if err == nil && string(plain) == secret.Reveal() {
			return true, nil
		}
	}
	return false, nil
}

func (c *Commands) endOperatorWebhook(ctx context.Context, by Caller) error {
	name, err := externalid.Aggregate.Load(ctx, c.Store,
		externalid.StreamID(destination.Operators, destination.NoticesExternalID))
	if err != nil || name.State.Owner == uuid.Nil {
		return err
	}
	_, err = c.DeleteDestination(ctx, by, DeleteDestination{ID: name.State.Owner})
	if errors.Is(err, destination.ErrUnknown) {
		return nil // deleted already
	}
	return err
}
