package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/externalid"
	"carillon/aggregates/subscription"
	"carillon/command/catalog"
	"carillon/eventstore"
)

// SubscriptionPatch changes a subscription; nil fields stay as they are. Feeds, where given, replaces the pins.
type SubscriptionPatch struct {
	ExternalID *string
	EventTypes []string
	ScopeKind  *string
	FeedType   *string
	Feeds      *[]subscription.Pin
	Active     *bool

	bearing string // where not empty, it is meant for the bearer of this name only
}

// CreateSubscription subscribes a destination.
func (c *Commands) CreateSubscription(ctx context.Context, by Caller, dest uuid.UUID, d subscription.Settings) (uuid.UUID, eventstore.Position, error) {
	id := uuid.New()
	if err := c.checkSettings(ctx, by, dest, d); err != nil {
		return id, eventstore.Start, err
	}
	if d.ExternalID != "" {
		_, err := c.claim(ctx, by, dest, d.ExternalID, id, c.subscriptionBears)
		if errors.Is(err, externalid.ErrTaken) {
			return id, eventstore.Start, refuse(Exists, "externalId", "this destination has a subscription with externalId %q already: use PUT to replace it, or another externalId", d.ExternalID)
		}
		if err != nil {
			return id, eventstore.Start, err
		}
	}
	at, err := c.recordSubscription(ctx, by, id, dest, d)
	return id, at, err
}

// UpsertSubscription creates or replaces the subscription with the declaration's externalId; created says which.
func (c *Commands) UpsertSubscription(ctx context.Context, by Caller, dest uuid.UUID, d subscription.Settings) (id uuid.UUID, created bool, at eventstore.Position, err error) {
	id = uuid.New()
	if err := c.checkSettings(ctx, by, dest, d); err != nil {
		return id, false, eventstore.Start, err
	}
	owner := uuid.Nil
	err = untilNamed(ctx, func() error {
		if owner, err = c.claim(ctx, by, dest, d.ExternalID, id, c.subscriptionBears); !errors.Is(err, externalid.ErrTaken) {
			return err
		}
		patch := replacing(d)
		patch.bearing = d.ExternalID
		at, err = c.ReviseSubscription(ctx, by, dest, owner, patch)
		return err
	})
	if err != nil || owner != uuid.Nil {
		return owner, false, at, err
	}
	at, err = c.recordSubscription(ctx, by, id, dest, d)
	return id, true, at, err
}

func (c *Commands) recordSubscription(ctx context.Context, by Caller, id, dest uuid.UUID, d subscription.Settings) (eventstore.Position, error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Create{
		Organization: by.Organization, Destination: dest, Settings: d, At: c.now(),
	}, subscription.Options{Metadata: by.metadata()})
	return out.Position, subscriptionError(err)
}

// ReplaceSubscription makes the whole declaration what d says; its name stays. Access to the pinned feeds is checked
// again.
func (c *Commands) ReplaceSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, d subscription.Settings) (eventstore.Position, error) {
	if err := c.checkSettings(ctx, by, dest, d); err != nil {
		return eventstore.Start, err
	}
	return c.ReviseSubscription(ctx, by, dest, id, replacing(d))
}

// replacing is the patch that makes all of a declaration but its name what d says.
func replacing(d subscription.Settings) SubscriptionPatch {
	return SubscriptionPatch{EventTypes: d.EventTypes, ScopeKind: &d.ScopeKind, FeedType: &d.FeedType, Feeds: &d.Feeds}
}

// ReviseSubscription merges a patch. The merged declaration is validated as a whole; reactivation checks access to
// every pinned feed, the stored ones included.
func (c *Commands) ReviseSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, patch SubscriptionPatch) (at eventstore.Position, err error) {
	if patch.ExternalID == nil {
		return c.reviseSubscription(ctx, by, dest, id, patch)
	}
	err = untilNamed(ctx, func() error {
		at, err = c.reviseSubscription(ctx, by, dest, id, patch)
		return err
	})
	return at, err
}

func (c *Commands) reviseSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, patch SubscriptionPatch) (eventstore.Position, error) {
	known, err := subscription.Aggregate.Load(ctx, c.Store, id)
	if err != nil {
		return eventstore.Start, err
	}
	bears := known.State.Settings.ExternalID
	switch {
	case patch.bearing != "" && (known.State.Status == subscription.StatusDeleted || bears != patch.bearing):
		return eventstore.Start, errOthersName
	case !known.State.VisibleTo(by.Organization, dest):
		return eventstore.Start, subscriptionError(subscription.ErrUnknown)
	}
	command := subscription.Revise{
		Organization: by.Organization, Destination: dest, EventTypes: patch.EventTypes,
		ScopeKind: patch.ScopeKind, FeedType: patch.FeedType, Feeds: patch.Feeds, Active: patch.Active, At: c.now(),
	}
	merged := command.Merge(known.State.Settings)
	if err := c.checkTypes(merged.EventTypes); err != nil {
		return eventstore.Start, err
	}
	if err := merged.Validate(); err != nil {
		return eventstore.Start, subscriptionError(err)
	}
	if patch.Feeds != nil || patch.Active != nil && *patch.Active {
		if err := c.checkPins(ctx, by, merged.Feeds); err != nil {
			return eventstore.Start, err
		}
	}
	if patch.ExternalID != nil && *patch.ExternalID != bears {
		command.ExternalID = patch.ExternalID
		return c.renameSubscription(ctx, by, dest, id, known, command)
	}
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id,
		command, subscription.Options{Metadata: by.metadata(), Known: &known})
	return out.Position, subscriptionError(err)
}

// renameSubscription records a command with another name, if the subscription is still as known. See releaseOld.
func (c *Commands) renameSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, known eventstore.Loaded[subscription.State],
	command subscription.Revise) (eventstore.Position, error) {
	old, name := known.State.Settings.ExternalID, *command.ExternalID
	if err := CheckExternalID("externalId", name); err != nil {
		return eventstore.Start, err
	}
	reserved, err := c.reserved(ctx, dest, old)
	if err != nil {
		return eventstore.Start, err
	}
	_, err = c.claim(ctx, by, dest, name, id, c.subscriptionBears)
	switch {
	case errors.Is(err, externalid.ErrTaken):
		return eventstore.Start, refuse(Exists, "externalId", "another subscription of this destination has externalId %q", name)
	case err != nil:
		return eventstore.Start, err
	}
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id,
		command, subscription.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: true})
	if err != nil {
		err = subscriptionError(err)
		c.unclaim(ctx, by, dest, name, id, err)
		return eventstore.Start, err
	}
	return out.Position, c.releaseOld(ctx, by, dest, old, reserved, id)
}

// DeleteSubscription ends a subscription; deliveries that only it asked for are discarded.
func (c *Commands) DeleteSubscription(ctx context.Context, by Caller, dest, id uuid.UUID) (eventstore.Position, error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Delete{
		Organization: by.Organization, Destination: dest, At: c.now(),
	}, subscription.Options{Metadata: by.metadata()})
	if err != nil {
		return eventstore.Start, subscriptionError(err)
	}
	return out.Position, c.release(ctx, by, dest, out.State.Settings.ExternalID, id)
}

func (c *Commands) checkSettings(ctx context.Context, by Caller, dest uuid.UUID, d subscription.Settings) error {
	if d.ExternalID != "" {
		if err := CheckExternalID("externalId", d.ExternalID); err != nil {
			return err
		}
	}
	if err := d.Validate(); err != nil {
		return subscriptionError(err)
	}
	if err := c.checkTypes(d.EventTypes); err != nil {
		return err
	}
	owner, err := destination.Aggregate.Load(ctx, c.Store, dest)
	if err != nil {
		return err
	}
	if !owner.State.VisibleTo(by.Organization) {
		return destinationError(destination.ErrUnknown)
	}
	return c.checkPins(ctx, by, d.Feeds)
}

// checkTypes refuses exact types that nobody publishes; a wildcard may match nothing yet.
func (c *Commands) checkTypes(types []string) error {
	for i, name := range types {
		field := fmt.Sprintf("eventTypes[%d]", i)
		if name == catalog.DeliveryTest {
			return refuse(Invalid, field, "%s: %q is sent by the test endpoint only and can't be subscribed to", field, name)
		}
		if _, known := c.Catalog.Find(name); !known && subscription.ValidPattern(name) && name[len(name)-1] != '*' {
			return refuse(Invalid, field, "%s: %q is no known event type; GET /events/types lists them", field, name)
		}
	}
	return nil
}

func (c *Commands) checkPins(ctx context.Context, by Caller, pins []subscription.Pin) error {
	for i, pin := range pins {
		readable, err := c.Access.Readable(ctx, by.Organization, pin.FeedType, pin.FeedID)
		if err != nil {
			return fmt.Errorf("feed access: %w", err)
		}
		if !readable {
			field := fmt.Sprintf("feeds[%d]", i)
			return refuse(NotFound, field, "%s: there is no %s feed %s that your organization owns or is subscribed to", field, pin.FeedType, pin.FeedID)
		}
	}
	return nil
}

// subscriptionBears implements bears.
func (c *Commands) subscriptionBears(ctx context.Context, owner uuid.UUID, externalID string) (borne, gone bool, err error) {
	loaded, err := subscription.Aggregate.Load(ctx, c.Store, owner)
	gone = loaded.State.Status == subscription.StatusDeleted
	return !gone && loaded.State.Settings.ExternalID == externalID, gone, err
}

func subscriptionError(err error) error {
	var invalid *subscription.InvalidError
	switch {
	case errors.As(err, &invalid):
		return &Refusal{Kind: Malformed, Field: invalid.Field, Message: invalid.Error(), Err: err}
	case errors.Is(err, subscription.ErrUnknown):
		return &Refusal{Kind: NotFound, Message: subscription.ErrUnknown.Error(), Err: err}
	}
	return err
}
