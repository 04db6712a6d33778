package delivery

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/google/uuid"

	"carillon/aggregates/delivery"
	"carillon/aggregates/destination"
	"carillon/aggregates/feed"
	"carillon/aggregates/subscription"
	"carillon/eventstore"
)

// StewardName is the steward's name as consumer and as actor.
const StewardName = "steward"

// Reasons of what the steward does.
const (
	reasonAccessLost  = "access to a pinned feed was lost"
	reasonFeedDeleted = "a pinned feed was deleted"
	reasonNobody      = "the last subscription that asked for it was deleted"
	reasonDestination = "the destination was deleted"
)

// Holdings is the read model of deliveries as the steward asks it.
type Holdings interface {
	// Dispatched waits until every delivery that follows from events up to a position is in the read model.
	Dispatched(ctx context.Context, to eventstore.Position) error
	// Shred deletes the data key of a deleted destination, if that did not happen yet.
	Shred(ctx context.Context, destination uuid.UUID) error
	// Orphaned lists the pending deliveries of a destination that were made for a subscription and for no other that
	// still exists.
	Orphaned(ctx context.Context, destination, subscription uuid.UUID) ([]uuid.UUID, error)
}

// Steward is the process manager that draws the consequences: subscriptions that lost their feed are switched off,
// those of a deleted destination are deleted, and deliveries that nobody is subscribed to any more are discarded.
type Steward struct {
	store    eventstore.Store
	holdings Holdings
	routes   *Routes
}

var _ eventstore.ProcessManager = (*Steward)(nil)

// NewSteward makes a steward; each run of it wants a fresh one.
func NewSteward(store eventstore.Store, holdings Holdings) *Steward {
	return &Steward{store: store, holdings: holdings, routes: NewRoutes()}
}

// Name implements eventstore.ProcessManager.
func (*Steward) Name() string { return StewardName }

// Version implements eventstore.ProcessManager.
func (*Steward) Version() int { return 1 }

// Filter implements eventstore.ProcessManager.
func (*Steward) Filter() eventstore.Filter {
	return eventstore.Categories(feed.Aggregate.Category, destination.Aggregate.Category, subscription.Aggregate.Category)
}

// Restore implements eventstore.ProcessManager.
func (s *Steward) Restore(row eventstore.SavedRow) error { return s.routes.Restore(row) }

// Begin implements eventstore.ProcessManager.
func (*Steward) Begin(eventstore.Position) {}

// Changed implements eventstore.ProcessManager.
func (s *Steward) Changed() ([]eventstore.SavedRow, error) { return s.routes.Changed(time.Time{}) }

// React implements eventstore.ProcessManager.
func (s *Steward) React(ctx context.Context, batch []eventstore.Recorded) error {
	for i := range batch {
		r := &batch[i]
		before := s.routes.subs[r.StreamID()]
		if err := s.routes.Apply(r); err != nil {
			return err
		}
		var err error
		switch r.Category() {
		case feed.Aggregate.Category:
			err = s.afterFeed(ctx, r)
		case destination.Aggregate.Category:
			err = s.afterDestination(ctx, r)
		default:
			if before != nil && s.routes.subs[before.ID] == nil {
				err = s.afterSubscription(ctx, r, before)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// afterFeed switches off the subscriptions that pin the feed although their organization can't see it any more.
func (s *Steward) afterFeed(ctx context.Context, r *eventstore.Recorded) error {
	id, reason := r.StreamID(), reasonAccessLost
	if s.routes.feeds[id] == nil {
		reason = reasonFeedDeleted
	}
	for _, sub := range s.routes.subs {
		pins := func(pin subscription.Pin) bool { return pin.FeedID == id }
		if !sub.Active || !slices.ContainsFunc(sub.Settings.Feeds, pins) || s.routes.sees(sub.Organization, id) {
			continue
		}
		command := subscription.Deactivate{Switches: sub.Switches, Reason: reason, At: recordedAt(r)}
		_, err := subscription.Aggregate.Execute(ctx, s.store, sub.ID, command, subscription.Options{
			CommandID: commandID(r, sub.ID), Metadata: stewardMetadata(r, sub.Organization, reason),
		})
		if err != nil && !errors.Is(err, subscription.ErrUnknown) {
			return fmt.Errorf("switch off subscription %s: %w", sub.ID, err)
		}
	}
	return nil
}

// afterDestination deletes the subscriptions of a deleted destination, and its data key, in case the request that
// deleted it died before it did.
func (s *Steward) afterDestination(ctx context.Context, r *eventstore.Recorded) error {
	id := r.StreamID()
	if s.routes.targets[id] != nil {
		return nil
	}
	if err := s.holdings.Shred(ctx, id); err != nil {
		return err
	}
	for _, sub := range s.routes.subs {
		if sub.Destination != id {
			continue
		}
		_, err := subscription.Aggregate.Execute(ctx, s.store, sub.ID, subscription.Delete{At: recordedAt(r)}, subscription.Options{
			CommandID: commandID(r, sub.ID), Metadata: stewardMetadata(r, sub.Organization, reasonDestination),
		})
		if err != nil && !errors.Is(err, subscription.ErrUnknown) {
			return fmt.Errorf("delete subscription %s: %w", sub.ID, err)
		}
	}
	return nil
}

// afterSubscription discards the pending deliveries that only the deleted subscription had asked for.
func (s *Steward) afterSubscription(ctx context.Context, r *eventstore.Recorded, sub *subRoute) error {
	if s.routes.targets[sub.Destination] == nil {
		return nil // its deliveries went with it
	}
	if err := s.holdings.Dispatched(ctx, r.Position); err != nil {
		return err
	}
	orphans, err := s.holdings.Orphaned(ctx, sub.Destination, sub.ID)
	if err != nil {
		return err
	}
	for _, id := range orphans {
		_, err := delivery.Aggregate.Execute(ctx, s.store, id, delivery.Discard{Reason: reasonNobody, At: recordedAt(r)}, delivery.Options{
			CommandID: commandID(r, id), Metadata: stewardMetadata(r, sub.Organization, reasonNobody),
		})
		if err != nil {
			return fmt.Errorf("discard delivery %s: %w", id, err)
		}
	}
	return nil
}

func recordedAt(r *eventstore.Recorded) time.Time { return r.Created.UTC().Truncate(time.Microsecond) }

// commandID derives the id of what follows from an event for an object: done again after a crash, it is recorded once.
func commandID(cause *eventstore.Recorded, object uuid.UUID) uuid.UUID {
	return uuid.NewSHA1(cause.ID, object[:])
}

func stewardMetadata(cause *eventstore.Recorded, organization uuid.UUID, reason string) eventstore.Metadata {
	return eventstore.Metadata{Organization: organization, CausationID: cause.ID, Actor: StewardName, Reason: reason}
}
