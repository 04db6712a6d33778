package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/subscription"
	"carillon/command/catalog"
	"carillon/command/reservation"
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
}

// CreateSubscription subscribes a destination.
func (c *Commands) CreateSubscription(ctx context.Context, by Caller, dest uuid.UUID, d subscription.Settings) (id uuid.UUID, at eventstore.Position, err error) {
	if err := c.checkSettings(ctx, by, dest, d); err != nil {
		return uuid.Nil, eventstore.Start, err
	}
	create := func(ctx context.Context, made uuid.UUID) (err error) {
		id = made
		at, err = c.recordSubscription(ctx, by, id, dest, d)
		return err
	}
	if d.ExternalID == "" {
		err = create(ctx, uuid.New())
	} else {
		err = c.subscriptionNames().Create(ctx, by.metadata(), reservation.Name{Scope: dest, ExternalID: d.ExternalID}, create)
	}
	return id, at, nameRefusal(err, "this destination has a subscription with externalId %q already: use PUT to replace it, or another externalId", d.ExternalID)
}

// UpsertSubscription creates or replaces the subscription with the settings' externalId; created says which.
func (c *Commands) UpsertSubscription(ctx context.Context, by Caller, dest uuid.UUID, d subscription.Settings) (id uuid.UUID, created bool, at eventstore.Position, err error) {
	if err := c.checkSettings(ctx, by, dest, d); err != nil {
		return uuid.Nil, false, eventstore.Start, err
	}
	create := func(ctx context.Context, made uuid.UUID) (err error) {
		id, created = made, true
		at, err = c.recordSubscription(ctx, by, id, dest, d)
		return err
	}
	replace := func(ctx context.Context, found uuid.UUID) (err error) {
		id, created = found, false
		at, err = c.replaceNamedSubscription(ctx, by, dest, id, d)
		return err
	}
	err = c.subscriptionNames().Upsert(ctx, by.metadata(), reservation.Name{Scope: dest, ExternalID: d.ExternalID}, create, replace)
	return id, created, at, nameRefusal(err, "")
}

// recordSubscription begins the stream of a subscription. Where another request began it, it fails with
// ErrWrongRevision.
func (c *Commands) recordSubscription(ctx context.Context, by Caller, id, dest uuid.UUID, d subscription.Settings) (eventstore.Position, error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Create{
		Organization: by.Organization, Destination: dest, Settings: d, At: c.now(),
	}, subscription.Options{
		Metadata: by.metadata(), Known: &eventstore.Loaded[subscription.State]{Revision: eventstore.NoStream}, OnlyKnown: true,
	})
	return out.Position, subscriptionError(err)
}

// replaceNamedSubscription replaces the subscription that has the settings' name. Where it does not have it any more,
// it fails with ErrWrongRevision.
func (c *Commands) replaceNamedSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, d subscription.Settings) (eventstore.Position, error) {
	known, err := subscription.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return eventstore.Start, err
	case known.State.Status == subscription.StatusDeleted || known.State.Settings.ExternalID != d.ExternalID:
		return eventstore.Start, eventstore.ErrWrongRevision
	}
	at, err := c.reviseSubscription(ctx, by, dest, id, known, false, replacing(d))
	if errors.Is(err, subscription.ErrUnknown) { // deleted right now
		err = eventstore.ErrWrongRevision
	}
	return at, err
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
		known, err := c.knownSubscription(ctx, by, dest, id)
		if err != nil {
			return eventstore.Start, err
		}
		return c.reviseSubscription(ctx, by, dest, id, known, false, patch)
	}
	if err := CheckExternalID("externalId", *patch.ExternalID); err != nil {
		return eventstore.Start, err
	}
	name := reservation.Name{Scope: dest, ExternalID: *patch.ExternalID}
	err = c.subscriptionNames().Rename(ctx, by.metadata(), id, name, func(ctx context.Context) (reservation.Renaming, error) {
		known, err := c.knownSubscription(ctx, by, dest, id)
		old := known.State.Settings.ExternalID
		return reservation.Renaming{Old: old, Rename: func(ctx context.Context) (err error) {
			at, err = c.reviseSubscription(ctx, by, dest, id, known, old != name.ExternalID, patch)
			return err
		}}, err
	})
	return at, nameRefusal(err, "another subscription of this destination has externalId %q", name.ExternalID)
}

// knownSubscription loads a subscription of a destination of the caller's organization.
func (c *Commands) knownSubscription(ctx context.Context, by Caller, dest, id uuid.UUID) (eventstore.Loaded[subscription.State], error) {
	known, err := subscription.Aggregate.Load(ctx, c.Store, id)
	if err == nil && !known.State.VisibleTo(by.Organization, dest) {
		err = subscriptionError(subscription.ErrUnknown)
	}
	return known, err
}

// reviseSubscription records a patch. Its name is left out, unless the subscription is renamed: that is right only at
// the revision that is known.
func (c *Commands) reviseSubscription(ctx context.Context, by Caller, dest, id uuid.UUID, known eventstore.Loaded[subscription.State],
	rename bool, patch SubscriptionPatch) (eventstore.Position, error) {
	command := subscription.Revise{
		Organization: by.Organization, Destination: dest, EventTypes: patch.EventTypes,
		ScopeKind: patch.ScopeKind, FeedType: patch.FeedType, Feeds: patch.Feeds, Active: patch.Active, At: c.now(),
	}
	if rename {
		command.ExternalID = patch.ExternalID
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
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, command,
		subscription.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: rename})
	return out.Position, subscriptionError(err)
}

// DeleteSubscription ends a subscription; deliveries that only it asked for are discarded.
func (c *Commands) DeleteSubscription(ctx context.Context, by Caller, dest, id uuid.UUID) (eventstore.Position, error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Delete{
		Organization: by.Organization, Destination: dest, At: c.now(),
	}, subscription.Options{Metadata: by.metadata()})
	if err != nil {
		return eventstore.Start, subscriptionError(err)
	}
	c.subscriptionNames().Release(ctx, by.metadata(), reservation.Name{Scope: dest, ExternalID: out.State.Settings.ExternalID}, id)
	return out.Position, nil
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
