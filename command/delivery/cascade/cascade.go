package cascade

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"carillon/aggregates/clientcertificate"
	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/organization"
	"carillon/aggregates/subscription"
	"carillon/command/delivery/routing"
	"carillon/eventstore"
)

// Name is its name as consumer and as actor.
const Name = "deletion_cascade"

// Reasons of changes after a deletion.
const (
	reasonAccessLost  = "access to a pinned feed was lost"
	reasonFeedDeleted = "a pinned feed was deleted"
	reasonDestination = "the destination was deleted"

	reasonOrganization = "the organization was deleted"
)

// Holdings is the read model of deliveries as the cascade of deletions asks it.
type Holdings interface {
	// Dispatched waits until every delivery that follows from events up to a position is in the read model.
	Dispatched(ctx context.Context, to eventstore.Position) error
	// Shred deletes the data key of a deleted destination, or of a certificate that ended, if that did not happen
	// yet.
	Shred(ctx context.Context, owner uuid.UUID) error
	// Orphaned lists the pending deliveries of a destination that were made for a subscription and for no other that
	// still exists. Deliveries held by a worker are left to it: a request in flight ends by its outcome.
	Orphaned(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error)
}

// Deletions is the process manager that runs after deletions: everything of a deleted organization is
// deleted, subscriptions that lost their feed are switched off, those of a deleted destination are deleted, and
// deliveries without a subscription are discarded.
type Deletions struct {
	eventstore.ProcessState

	store    eventstore.Store
	holdings Holdings
	routes   *routing.Routes
	gone     *eventstore.SavedTable[uuid.UUID, struct{}] // organizations that were deleted
}

// New makes a cascade of deletions; each run of it wants a fresh one.
func New(store eventstore.Store, holdings Holdings) *Deletions {
	c := &Deletions{store: store, holdings: holdings}
	c.routes = routing.New(&c.ProcessState)
	c.gone = eventstore.NewSavedTable[uuid.UUID, struct{}](&c.ProcessState, "gone", uuid.Parse)
	return c
}

// Traits implements eventstore.ProcessManager.
func (c *Deletions) Traits() eventstore.Traits {
	return eventstore.Traits{
		Name:    Name,
		Version: 1,
		Filter: eventstore.Categories(organization.Aggregate.Category, clientcertificate.Aggregate.Category,
			feed.Aggregate.Category, destination.Aggregate.Category, subscription.Aggregate.Category),
		Folded: &eventstore.Folded{
			Filter: eventstore.Categories(organization.Aggregate.Category, feed.Aggregate.Category,
				destination.Aggregate.Category, subscription.Aggregate.Category),
			Fold: c.fold,
			Rows: func() ([]eventstore.SavedRow, error) { return c.Rows(append(routing.Kinds, "gone")...) },
		},
	}
}

func (c *Deletions) fold(r *eventstore.Recorded) error {
	if r.Category() != organization.Aggregate.Category {
		return c.routes.Apply(r)
	}
	_, err := c.deleted(r)
	return err
}

// React implements eventstore.ProcessManager.
func (c *Deletions) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		if err := c.react(ctx, &batch[i]); err != nil {
			return err
		}
	}
	return nil
}

func (c *Deletions) react(ctx context.Context, r *eventstore.Recorded) error {
	switch r.Category() {
	case organization.Aggregate.Category:
		return c.afterOrganization(ctx, r)
	case clientcertificate.Aggregate.Category:
		return c.afterCertificate(ctx, r)
	}
	before, readers := c.routes.Subscriptions.Get(r.StreamID()), c.routes.Readers(r.StreamID())
	if err := c.routes.Apply(r); err != nil {
		return err
	}
	switch r.Category() {
	case feed.Aggregate.Category:
		return c.afterFeed(ctx, r, readers)
	case destination.Aggregate.Category:
		return c.afterDestination(ctx, r)
	}
	now := c.routes.Subscriptions.Get(r.StreamID())
	switch {
	case before != nil && now == nil:
		return c.afterSubscription(ctx, r, before)
	case now != nil && c.gone.Get(now.Organization) != nil: // a request in flight made it
		return c.change(ctx, r, now, subscription.Delete{At: r.RecordedAt()}, reasonOrganization)
	}
	return nil
}

// afterOrganization deletes everything of a deleted organization. These deletions come back as events.
func (c *Deletions) afterOrganization(ctx context.Context, r *eventstore.Recorded) error {
	deleted, err := c.deleted(r)
	if err != nil || !deleted {
		return err
	}
	id := r.StreamID()
	for target, t := range c.routes.Targets.All() {
		if t.Organization == id {
			if err := c.endDestination(ctx, r, id, target); err != nil {
				return err
			}
		}
	}
	for shown, f := range c.routes.Feeds.All() {
		if err := c.endFeed(ctx, r, id, shown, f); err != nil {
			return err
		}
	}
	return c.endCertificate(ctx, r, id)
}

// deleted folds an event of an organization, and reports whether it was deleted.
func (c *Deletions) deleted(r *eventstore.Recorded) (bool, error) {
	event, err := organization.Events.Decode(r)
	if err != nil {
		return false, err
	}
	switch event.(type) {
	case organization.Deleted:
		c.gone.Set(r.StreamID(), &struct{}{})
		return true, nil
	case organization.Registered, organization.KeyIssued, organization.KeyRotated, organization.KeyRevoked,
		organization.LimitsSet, organization.Suspended, organization.Resumed:
	}
	return false, nil
}

// endDestination deletes a destination of a deleted organization, and its data key.
func (c *Deletions) endDestination(ctx context.Context, r *eventstore.Recorded, of, id uuid.UUID) error {
	_, err := destination.Aggregate.Execute(ctx, c.store, id, destination.Delete{Organization: of, At: r.RecordedAt()},
		consequence[destination.State](r, id, of, reasonOrganization))
	if err := unlessGone(err, "delete destination", id); err != nil {
		return err
	}
	return c.holdings.Shred(ctx, id)
}

// endFeed deletes a feed of a deleted organization, or ends that it reads it.
func (c *Deletions) endFeed(ctx context.Context, r *eventstore.Recorded, of, id uuid.UUID, f *routing.Feed) error {
	var command feed.Command
	switch {
	case f.Owner == of:
		command = feed.End{At: r.RecordedAt()}
	case slices.Contains(f.Shared, of):
		command = feed.Unshare{FeedType: f.Type, With: of, At: r.RecordedAt()}
	default:
		return nil
	}
	_, err := feed.Aggregate.Execute(ctx, c.store, id, command, consequence[feed.State](r, id, of, reasonOrganization))
	return unlessGone(err, "end feed", id)
}

// afterFeed switches off the subscriptions that pin the feed of those readers that can't see it any more.
func (c *Deletions) afterFeed(ctx context.Context, r *eventstore.Recorded, readers []uuid.UUID) error {
	id, reason := r.StreamID(), reasonAccessLost
	if f := c.routes.Feeds.Get(id); f != nil && c.gone.Get(f.Owner) != nil { // a request in flight made it
		if err := c.endFeed(ctx, r, f.Owner, id, f); err != nil {
			return err
		}
	}
	if c.routes.Feeds.Get(id) == nil {
		reason = reasonFeedDeleted
	}
	for _, reader := range readers {
		if c.routes.Sees(reader, id) {
			continue
		}
		for _, sub := range c.routes.Active(reader) {
			if !sub.Wants.PinsFeed(id) {
				continue
			}
			off := subscription.Deactivate{Switches: sub.Switches, Reason: reason, At: r.RecordedAt()}
			if err := c.change(ctx, r, sub, off, reason); err != nil {
				return err
			}
		}
	}
	return nil
}

// change executes a command on a subscription, for a reason.
func (c *Deletions) change(ctx context.Context, r *eventstore.Recorded, sub *routing.Subscription,
	command subscription.Command, reason string) error {
	_, err := subscription.Aggregate.Execute(ctx, c.store, sub.ID, command,
		consequence[subscription.State](r, sub.ID, sub.Organization, reason))
	return unlessGone(err, "change subscription", sub.ID)
}

// afterDestination deletes the subscriptions of a deleted destination, and its data key, in case the request that
// deleted it died before it did.
func (c *Deletions) afterDestination(ctx context.Context, r *eventstore.Recorded) error {
	id := r.StreamID()
	if t := c.routes.Targets.Get(id); t != nil {
		if c.gone.Get(t.Organization) != nil { // a request in flight made it
			return c.endDestination(ctx, r, t.Organization, id)
		}
		return nil
	}
	if err := c.holdings.Shred(ctx, id); err != nil {
		return err
	}
	for _, sub := range c.routes.Subscriptions.All() {
		if sub.Destination != id {
			continue
		}
		if err := c.change(ctx, r, sub, subscription.Delete{At: r.RecordedAt()}, reasonDestination); err != nil {
			return err
		}
	}
	return nil
}

// afterSubscription discards the pending deliveries that only the deleted subscription had asked for.
func (c *Deletions) afterSubscription(ctx context.Context, r *eventstore.Recorded, sub *routing.Subscription) error {
	if c.routes.Targets.Get(sub.Destination) == nil {
		return nil // its deliveries went with it
	}
	if err := c.holdings.Dispatched(ctx, r.Position); err != nil {
		return err
	}
	orphans, err := c.holdings.Orphaned(ctx, sub.Destination, sub.ID)
	if err != nil {
		return err
	}
	for _, id := range orphans {
		_, err := delivery.Aggregate.Execute(ctx, c.store, id, delivery.Discard{
			Reason: delivery.ReasonUnsubscribed,
			At:     r.RecordedAt(),
		}, consequence[delivery.State](r, id, sub.Organization, delivery.ReasonUnsubscribed))
		if err := unlessGone(err, "discard delivery", id); err != nil {
			return err
		}
	}
	return nil
}

// consequence returns the options of a command that follows from an event to one object of an organization. Its id is
// derived: repeated after a crash, it is recorded once.
func consequence[S any](
	cause *eventstore.Recorded, object, organization uuid.UUID, reason string,
) eventstore.Options[S] {
	return eventstore.Options[S]{
		CommandID: uuid.NewSHA1(cause.ID, object[:]),
		Metadata: eventstore.Metadata{
			Organization: organization,
			CausationID:  cause.ID,
			Actor:        Name,
			Reason:       reason,
		},
	}
}

// unlessGone returns why a command failed, except if nothing can happen to its object any more.
func unlessGone(err error, doing string, object uuid.UUID) error {
	if err == nil || gone(err) {
		return nil
	}
	return fmt.Errorf("%s %s: %w", doing, object, err)
}

// gone reports whether nothing can happen to an object any more: it is unknown, or its stream was deleted.
func gone(err error) bool {
	return errors.Is(err, eventstore.ErrStreamDeleted) || errors.Is(err, destination.ErrUnknown) ||
		errors.Is(err, feed.ErrUnknown) || errors.Is(err, subscription.ErrUnknown) ||
		errors.Is(err, clientcertificate.ErrNone)
}
