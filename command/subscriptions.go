package command

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"carillon/aggregates/destination"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/command/catalog"
	"carillon/command/reservation"
	"carillon/eventstore"
)

// CreateSubscription is the input of a create.
type CreateSubscription struct {
	Destination uuid.UUID
	Settings    subscription.Settings // ExternalID is optional
}

// UpsertSubscription is the input of a create or replacement by name: the settings' ExternalID is required.
type UpsertSubscription CreateSubscription

// ReviseSubscription is the input of a change.
type ReviseSubscription struct {
	Destination uuid.UUID
	ID          uuid.UUID
	Sets        subscription.Field    // the settings that change
	Settings    subscription.Settings // their values
	Active      *bool                 // Optional
	// Expected is the revision of the settings that the caller has seen: the change is refused if there is a later one.
	// Optional.
	Expected *eventstore.Revision
}

// DeleteSubscription is the input of a deletion.
type DeleteSubscription struct{ Destination, ID uuid.UUID }

// CreateSubscription subscribes a destination.
func (c *Commands) CreateSubscription(
	ctx context.Context, by Caller, in CreateSubscription,
) (made Result[subscription.State], err error) {
	if err := c.checkSettings(ctx, by, in); err != nil {
		return made, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		made, err = c.recordSubscription(ctx, by, id, in)
		return err
	}
	name := reservation.Name{Scope: in.Destination, ExternalID: in.Settings.ExternalID}
	err = c.subscriptionNames().Create(ctx, by.metadata(), name, create)
	return made, nameRefusal(err, "this destination has a subscription with externalId %q already: use PUT to replace "+
		"it, or another externalId", in.Settings.ExternalID)
}

// UpsertSubscription creates or replaces the subscription with the settings' externalId.
func (c *Commands) UpsertSubscription(
	ctx context.Context, by Caller, in UpsertSubscription,
) (made Result[subscription.State], err error) {
	whole := CreateSubscription(in)
	if err := c.checkSettings(ctx, by, whole); err != nil {
		return made, err
	}
	create := func(ctx context.Context, id uuid.UUID) (err error) {
		made, err = c.recordSubscription(ctx, by, id, whole)
		return err
	}
	replace := func(ctx context.Context, id uuid.UUID) (err error) {
		made, err = c.replaceNamedSubscription(ctx, by, id, whole)
		return err
	}
	name := reservation.Name{Scope: in.Destination, ExternalID: in.Settings.ExternalID}
	err = c.subscriptionNames().Upsert(ctx, by.metadata(), name, create, replace)
	return made, nameRefusal(err, "")
}

// CheckSubscription refuses settings with which no subscription of the caller's organization can be made. Its error
// joins the refusals of all fields; feeds are looked up if there is none.
func (c *Commands) CheckSubscription(ctx context.Context, by Caller, d subscription.Settings) error {
	if err := c.checkForm(d); err != nil {
		return err
	}
	return c.checkPins(ctx, by, d.Feeds)
}

// checkForm checks what needs no other aggregate.
func (c *Commands) checkForm(d subscription.Settings) error {
	var name error
	if d.ExternalID != "" {
		name = CheckExternalID("externalId", d.ExternalID)
	}
	return errors.Join(name, refused(d.Validate()), c.checkTypes(d.EventTypes))
}

// recordSubscription begins the stream of a subscription. Where another request began it, it fails with
// ErrWrongRevision.
func (c *Commands) recordSubscription(
	ctx context.Context, by Caller, id uuid.UUID, in CreateSubscription,
) (made Result[subscription.State], err error) {
	begin := func() (Result[subscription.State], error) { return c.beginSubscription(ctx, by, id, in) }
	made, err = within(ctx, c.Quotas, amount{by.Organization, organization.LimitSubscriptions, id, 1},
		func() (Result[subscription.State], error) {
			return within(ctx, c.Quotas, patternsAndPins(by, id, in.Settings), begin)
		})
	if err != nil {
		return made, err
	}
	return made, c.endIfOrphaned(ctx, by, in.Destination, id)
}

// endIfOrphaned deletes a subscription that was made while its destination was deleted: the cascade of that deletion
// may have looked for subscriptions before this one was there.
func (c *Commands) endIfOrphaned(ctx context.Context, by Caller, of, id uuid.UUID) error {
	owner, err := destination.Aggregate.Load(ctx, c.Store, of)
	if err != nil || owner.State.VisibleTo(by.Organization) {
		return err
	}
	_, err = subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Delete{At: c.now()},
		subscription.Options{Metadata: by.metadata()})
	if err != nil && !errors.Is(err, subscription.ErrUnknown) {
		return err
	}
	return refused(destination.ErrUnknown)
}

func patternsAndPins(by Caller, id uuid.UUID, s subscription.Settings) amount {
	return amount{by.Organization, organization.LimitPatternsAndPins, PatternsClaim(id), s.Size()}
}

func (c *Commands) beginSubscription(
	ctx context.Context, by Caller, id uuid.UUID, in CreateSubscription,
) (Result[subscription.State], error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, id, subscription.Create{
		Organization: by.Organization,
		Destination:  in.Destination,
		Settings:     in.Settings,
		At:           c.now(),
	}, subscription.Options{
		Metadata: by.metadata(), Known: &eventstore.Loaded[subscription.State]{Revision: eventstore.NoStream},
		OnlyKnown: true,
	})
	made := resultOf(id, out.Loaded)
	made.Created = true
	return made, refused(err)
}

// replaceNamedSubscription replaces the subscription that has the settings' name. If it does not have it any more, it
// fails with ErrWrongRevision.
func (c *Commands) replaceNamedSubscription(
	ctx context.Context, by Caller, id uuid.UUID, in CreateSubscription,
) (changed Result[subscription.State], err error) {
	known, err := subscription.Aggregate.Load(ctx, c.Store, id)
	switch {
	case err != nil:
		return changed, err
	case known.State.Status == subscription.StatusDeleted || known.State.Settings.ExternalID != in.Settings.ExternalID:
		return changed, eventstore.ErrWrongRevision
	}
	changed, err = c.reviseSubscription(ctx, by, known, false, ReviseSubscription{
		Destination: in.Destination,
		ID:          id,
		Sets:        subscription.FieldsAll,
		Settings:    in.Settings,
	})
	if errors.Is(err, subscription.ErrUnknown) { // deleted right now
		err = eventstore.ErrWrongRevision
	}
	return changed, err
}

// ReviseSubscription changes what the input names. The settings that come of it are validated as a whole; reactivation
// checks access to every pinned feed, the stored ones included.
func (c *Commands) ReviseSubscription(
	ctx context.Context, by Caller, in ReviseSubscription,
) (changed Result[subscription.State], err error) {
	if !in.Sets.Has(subscription.FieldExternalID) {
		known, err := c.knownSubscription(ctx, by, in)
		if err != nil {
			return changed, err
		}
		return c.reviseSubscription(ctx, by, known, false, in)
	}
	if err := CheckExternalID("externalId", in.Settings.ExternalID); err != nil {
		return changed, err
	}
	name := reservation.Name{Scope: in.Destination, ExternalID: in.Settings.ExternalID}
	err = c.subscriptionNames().Rename(ctx, by.metadata(), in.ID, name,
		func(ctx context.Context) (reservation.Renaming, error) {
			known, err := c.knownSubscription(ctx, by, in)
			old := known.State.Settings.ExternalID
			return reservation.Renaming{Old: old, Rename: func(ctx context.Context) (err error) {
				changed, err = c.reviseSubscription(ctx, by, known, old != name.ExternalID, in)
				return err
			}}, err
		})
	return changed, nameRefusal(err, "another subscription of this destination has externalId %q", name.ExternalID)
}

// knownSubscription loads a subscription of a destination of the caller's organization.
func (c *Commands) knownSubscription(
	ctx context.Context, by Caller, in ReviseSubscription,
) (eventstore.Loaded[subscription.State], error) {
	known, err := subscription.Aggregate.Load(ctx, c.Store, in.ID)
	if err == nil && !known.State.VisibleTo(by.Organization, in.Destination) {
		err = refused(subscription.ErrUnknown)
	}
	return known, err
}

// reviseSubscription records a change. Its name is left out, unless the subscription is renamed: that is right only at
// the revision that is known.
func (c *Commands) reviseSubscription(ctx context.Context, by Caller, known eventstore.Loaded[subscription.State],
	rename bool, in ReviseSubscription) (changed Result[subscription.State], err error) {
	if in.Expected != nil && known.Revision != *in.Expected {
		return changed, refused(subscription.ErrRevisedSince)
	}
	command := subscription.Revise{
		Organization: by.Organization,
		Destination:  in.Destination,
		Sets:         in.Sets,
		Settings:     in.Settings,
		Active:       in.Active,
		At:           c.now(),
	}
	if !rename {
		command.Sets &^= subscription.FieldExternalID
	}
	merged := known.State.Settings.With(command.Sets, command.Settings)
	if err := errors.Join(refused(merged.Validate()), c.checkTypes(merged.EventTypes)); err != nil {
		return changed, err
	}
	if in.Sets.Has(subscription.FieldFeeds) || in.Active != nil && *in.Active {
		if err := c.checkPins(ctx, by, merged.Feeds); err != nil {
			return changed, err
		}
	}
	revise := func() (Result[subscription.State], error) {
		out, err := subscription.Aggregate.Execute(ctx, c.Store, in.ID, command,
			subscription.Options{Metadata: by.metadata(), Known: &known, OnlyKnown: rename || in.Expected != nil})
		if in.Expected != nil && errors.Is(err, eventstore.ErrWrongRevision) {
			err = subscription.ErrRevisedSince
		}
		return resultOf(in.ID, out.Loaded), refused(err)
	}
	if merged.Size() <= known.State.Settings.Size() {
		return revise()
	}
	return within(ctx, c.Quotas, patternsAndPins(by, in.ID, merged), revise)
}

// DeleteSubscription ends a subscription; deliveries that only it asked for are discarded.
func (c *Commands) DeleteSubscription(
	ctx context.Context, by Caller, in DeleteSubscription,
) (Result[subscription.State], error) {
	out, err := subscription.Aggregate.Execute(ctx, c.Store, in.ID, subscription.Delete{
		Organization: by.Organization, Destination: in.Destination, At: c.now(),
	}, subscription.Options{Metadata: by.metadata()})
	if err != nil {
		return Result[subscription.State]{}, refused(err)
	}
	name := reservation.Name{Scope: in.Destination, ExternalID: out.State.Settings.ExternalID}
	c.subscriptionNames().Release(ctx, by.metadata(), name, in.ID)
	return resultOf(in.ID, out.Loaded), nil
}

func (c *Commands) checkSettings(ctx context.Context, by Caller, in CreateSubscription) error {
	if err := c.checkForm(in.Settings); err != nil {
		return err
	}
	if _, err := c.knownDestination(ctx, by, in.Destination); err != nil {
		return err
	}
	return c.checkPins(ctx, by, in.Settings.Feeds)
}

// checkTypes refuses unknown exact types; a wildcard may match nothing yet.
func (c *Commands) checkTypes(types []string) error {
	for i, name := range types {
		field := fmt.Sprintf("eventTypes[%d]", i)
		if name == catalog.DeliveryTest {
			return refuse(Invalid, field, "%s: %q can't be subscribed to: leave it out, POST "+
				"/events/destinations/{ref}/test sends it", field, name)
		}
		if catalog.IsNotice(name) {
			return refuse(Invalid, field, "%s: %q is a notice: name an address for notices by PUT /events/notices", field, name)
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
			return refuse(NotFound, field, "%s: there is no %s feed %s that your organization owns or is subscribed to", field,
				pin.FeedType, pin.FeedID)
		}
	}
	return nil
}
